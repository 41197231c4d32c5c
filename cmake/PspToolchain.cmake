# The compiler's helpers, used where they are installed, and the sanitizers.

find_program(PSP_CCACHE ccache)
if(PSP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${PSP_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PSP_CCACHE})
endif()

find_program(PSP_MOLD mold)
if(PSP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

set(PSP_SANITIZE "off" CACHE STRING "address (with undefined), thread or off")
set_property(CACHE PSP_SANITIZE PROPERTY STRINGS address thread off)
if(PSP_SANITIZE STREQUAL "address")
  set(psp_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)  # the sanitizers do not see that an empty optional is read
elseif(PSP_SANITIZE STREQUAL "thread")
  set(psp_sanitizers -fsanitize=thread)
elseif(NOT PSP_SANITIZE STREQUAL "off")
  message(FATAL_ERROR "PSP_SANITIZE is '${PSP_SANITIZE}': it must be address, thread or off")
endif()
if(psp_sanitizers)
  add_compile_options(${psp_sanitizers} -fno-omit-frame-pointer -O1)
  add_link_options(${psp_sanitizers})
endif()

# Eight files of a library are compiled as one: what they include is read once, which is most of the work. Each file by itself for the
# sanitizers' builds (and -DCMAKE_UNITY_BUILD=OFF), which find a missing #include.
if(NOT DEFINED CMAKE_UNITY_BUILD AND PSP_SANITIZE STREQUAL "off")
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
