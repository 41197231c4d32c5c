# psp_enable_warnings(): every target added after the call is compiled with our warnings, all of them errors.
function(psp_enable_warnings)
  add_compile_options(
    -Wall -Wextra -Wpedantic -Werror
    -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wcast-align -Wcast-qual
    -Wformat=2 -Wimplicit-fallthrough -Wextra-semi -Wundef)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wduplicated-cond -Wduplicated-branches -Wlogical-op)
  endif()
  if(NOT PSP_SANITIZE STREQUAL "off" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's flow analysis reports what is not there once a sanitizer has rewritten the flow.
    add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds -Wno-tsan)
  endif()
endfunction()
