# How every file is compiled: megatoken_options carries the standard, the warnings, the sanitizers and CUDA.

add_library(megatoken_options INTERFACE)
target_compile_features(megatoken_options INTERFACE cxx_std_20)
target_include_directories(megatoken_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(megatoken_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wno-missing-field-initializers>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports overlapping copies in plain string concatenation (its bug 105651).
  target_compile_options(megatoken_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # GCC 13 takes every function that gets a temporary and returns a reference for a dangling one (its bug 109642): find_component("x").
  target_compile_options(megatoken_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
endif()
# Error places and assertions name files from the root, wherever the clone lies.
target_compile_options(megatoken_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)

if(MEGATOKEN_PORTABLE)
  target_link_options(megatoken_options INTERFACE -static-libstdc++ -static-libgcc)
endif()
if(MEGATOKEN_SANITIZE)
  target_compile_options(megatoken_options INTERFACE  # GCC sees uninitialised values in its own <regex> when instrumented
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MEGATOKEN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized>)
  target_link_options(megatoken_options INTERFACE -fsanitize=${MEGATOKEN_SANITIZE})
endif()

find_program(CCACHE ccache HINTS ${MEGATOKEN_DEPS}/bin NO_CMAKE_PATH NO_CMAKE_SYSTEM_PATH NO_CACHE)
if(CCACHE)
  # Paths below the root are cached relative to it, so clones in different folders share objects.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

if(MEGATOKEN_CUDA)
  find_program(NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT NVCC)
    message(FATAL_ERROR "MEGATOKEN_CUDA is on but there is no nvcc on PATH or in /usr/local/cuda: pass -DNVCC=/path/to/nvcc, or use the cpu preset")
  endif()
  set(CMAKE_CUDA_COMPILER ${NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${MEGATOKEN_CUDA_ARCHS})
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
    message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old for sm_100a: 12.8 or newer is needed, or the cpu preset")
  endif()
  find_package(CUDAToolkit REQUIRED)
  target_compile_options(megatoken_options INTERFACE  # CMake 3.25 does not know that nvcc can do C++20, so the flag is spelt out;
    # its front end puts parentheses around pointers to members, which GCC would report
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --Werror=all-warnings --extended-lambda --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-Wno-missing-field-initializers,-Wno-parentheses>)
  target_compile_definitions(megatoken_options INTERFACE MEGATOKEN_WITH_CUDA=1
    $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)  # fmt 9 switches constexpr off for nvcc, then calls itself from constexpr functions
  target_link_libraries(megatoken_options INTERFACE CUDA::cudart_static)
endif()
