# What was built, from which commit, with which compiler: written into every result file (harness/store/build_info.hpp).
# The compiler's half is filled in now, git's half by write_build_info.cmake at every build; one file recompiles when either changes.
function(megatoken_build_info floor)
  if(MEGATOKEN_CUDA)
    set(nvcc_version ${CMAKE_CUDA_COMPILER_VERSION})
    string(JOIN " " cuda_flags ${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_RELEASE})
    list(JOIN MEGATOKEN_CUDA_ARCHS "\", \"" cuda_archs)
    set(cuda_archs "\"${cuda_archs}\"")
  endif()
  string(TOUPPER ${CMAKE_BUILD_TYPE} build_type)
  string(JOIN " " cxx_flags ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} "optimized/:" ${MEGATOKEN_OPTIMIZED_FLAGS})
  if(MEGATOKEN_SANITIZE)
    string(APPEND cxx_flags " -fsanitize=${MEGATOKEN_SANITIZE}")
  endif()
  set(folder ${CMAKE_BINARY_DIR}/generated)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/build_info.cpp.in ${folder}/build_info.cpp.in @ONLY)
  find_program(GIT git)
  add_custom_target(build_info
    COMMAND ${CMAKE_COMMAND} -DGIT=${GIT} -DROOT=${CMAKE_SOURCE_DIR} -DFOLDER=${folder} -P ${CMAKE_SOURCE_DIR}/cmake/write_build_info.cmake
    BYPRODUCTS ${folder}/build_info.cpp COMMENT "" VERBATIM)
  target_sources(floor_${floor} PRIVATE ${folder}/build_info.cpp)
  add_dependencies(floor_${floor} build_info)
endfunction()
