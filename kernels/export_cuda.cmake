# add_subdirectory(this folder) and link to @NAME@::@NAME@, or install it and find_package(@NAME@). For @ARCH@.
cmake_minimum_required(VERSION 3.17)
project(@NAME@ VERSION 1.0 LANGUAGES C)

find_package(CUDAToolkit REQUIRED)

add_library(@NAME@ STATIC)
add_library(@NAME@::@NAME@ ALIAS @NAME@)
set(@NAME@_sources @SOURCES@)
separate_arguments(@NAME@_sources)
target_sources(@NAME@ PRIVATE ${@NAME@_sources})
target_include_directories(@NAME@ PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
set_target_properties(@NAME@ PROPERTIES C_STANDARD 17 POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
target_link_libraries(@NAME@ PUBLIC CUDA::cuda_driver m)
if(@LIBRARY@)
  target_link_libraries(@NAME@ PUBLIC CUDA::cublasLt)
endif()

if(CMAKE_PROJECT_NAME STREQUAL PROJECT_NAME AND @TEST@)
  enable_testing()
  add_executable(@NAME@_test test/main.c)
  target_link_libraries(@NAME@_test PRIVATE @NAME@)
  add_test(NAME @NAME@ COMMAND @NAME@_test ${CMAKE_CURRENT_SOURCE_DIR}/test/data.bin)
  set_tests_properties(@NAME@ PROPERTIES SKIP_RETURN_CODE 77)
endif()

include(GNUInstallDirs)
install(TARGETS @NAME@ EXPORT @NAME@-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES @NAME@.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT @NAME@-targets NAMESPACE @NAME@:: FILE @NAME@-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/@NAME@)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/@NAME@-config.cmake
  "include(CMakeFindDependencyMacro)\nfind_dependency(CUDAToolkit)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/@NAME@-targets.cmake)\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/@NAME@-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/@NAME@)
