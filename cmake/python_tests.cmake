# Tests of the Python package: every tests/python/*_test.py is one test, run by pytest from .venv with
# the library and the program of this build. Without .venv, or with sanitizers (which a plain Python
# cannot load), they are left out.

set(flamia_python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
if(NOT EXISTS "${flamia_python}" OR NOT TARGET flamia_program)
  message(STATUS "flamia: no Python tests: .venv is made by scripts/setup, the program by the tools")
  return()
endif()
if(FLAMIA_SANITIZE)
  message(STATUS "flamia: no Python tests with sanitizers")
  return()
endif()

file(GLOB flamia_python_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/python/*_test.py")
set(environment
    "PYTHONPATH=${PROJECT_SOURCE_DIR}/python"
    "PYTHONDONTWRITEBYTECODE=1"
    "FLAMIA_LIBRARY=$<TARGET_FILE:flamia_shared>"
    "FLAMIA_PROGRAM=$<TARGET_FILE:flamia_program>"
    "OMP_NUM_THREADS=1"
    "OPENBLAS_NUM_THREADS=1")
foreach(source IN LISTS flamia_python_tests)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_test$" "" name "${name}")
  add_test(NAME python/${name} COMMAND "${flamia_python}" -m pytest "${source}"
           WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(python/${name} PROPERTIES LABELS "cpu;python" TIMEOUT 300 ENVIRONMENT
                                                 "${environment}")
endforeach()
