# Everything that is taken from the system, with the oldest version we test. Nothing is downloaded.

find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)
if(FLAMIA_BUILD_TOOLS)
  find_package(CLI11 2.1 REQUIRED)
  find_package(fmt 9.1 REQUIRED)
  # Baselines of the benchmarks; the program is complete without them.
  find_package(benchmark 1.7 QUIET)
  find_path(FLAMIA_OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-serial)
  find_library(FLAMIA_OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-serial)
  mark_as_advanced(FLAMIA_OPENBLAS_INCLUDE_DIR FLAMIA_OPENBLAS_LIBRARY)
endif()
if(FLAMIA_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()

# CUDA: only nvcc is needed, no device and no driver.
set(FLAMIA_HAS_CUDA OFF)
if(NOT FLAMIA_CUDA STREQUAL "OFF")
  find_program(FLAMIA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
               PATH_SUFFIXES bin)
  mark_as_advanced(FLAMIA_NVCC)
  if(FLAMIA_NVCC)
    set(FLAMIA_HAS_CUDA ON)
  elseif(FLAMIA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FLAMIA_CUDA=ON must find nvcc; got none (set CUDA_HOME)")
  endif()
endif()
message(STATUS "flamia: device code ${FLAMIA_HAS_CUDA}")
