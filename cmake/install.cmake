# Install rules: both libraries, public headers, the CMake package flamia, and the program.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(flamia_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/flamia")

install(TARGETS flamia_static flamia_shared EXPORT flamia_targets)
if(EXISTS "${PROJECT_SOURCE_DIR}/include/flamia")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/flamia" DESTINATION include
          FILES_MATCHING PATTERN "*.h")
endif()
if(TARGET flamia_program)
  install(TARGETS flamia_program)
endif()
if(TARGET flamia_vgpu_run)
  # Apart from other libraries: these stand in for CUDA's own.
  install(TARGETS flamia_vgpu_run flamia_vgpu_trace)
  install(TARGETS flamia_cudart flamia_cuda_driver LIBRARY DESTINATION lib/flamia/vgpu)
endif()
install(EXPORT flamia_targets NAMESPACE flamia:: DESTINATION "${flamia_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/flamia-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/generated/flamia-config.cmake"
                              INSTALL_DESTINATION "${flamia_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/flamia-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/flamia-config.cmake"
              "${PROJECT_BINARY_DIR}/generated/flamia-config-version.cmake"
        DESTINATION "${flamia_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
