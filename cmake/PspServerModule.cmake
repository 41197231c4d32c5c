# psp_server_module(NAME FOLDER_SOURCES LIBS psp_constants_c LIBPQ)
#
# A module of PostgreSQL, in C, for each major version whose headers are there: lib/postgresql/15/NAME.so. The target psp_server_modules
# makes all modules for all versions, NAME_15 one for one. Debian's versions, those in the build folder (tools/fetch_postgres.py, tools/build_postgres.py), and those of
# PSP_PG_CONFIG (a list of pg_config programs). With a sanitizer those in the build folder only, which must have been built with it: no
# other server can load the module, so it is in a folder of its own, lib/postgresql-address/.
# LIBPQ: the module is linked with the libpq of that version. exports.map beside the sources has the names that the server may see: it loads
# a module's names into its own.
add_custom_target(psp_server_modules)

function(psp_server_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LIBPQ" "" "SOURCES;LIBS")
  file(GLOB programs ${CMAKE_BINARY_DIR}/postgres/*/bin/pg_config)
  set(modules ${CMAKE_BINARY_DIR}/lib/postgresql-${PSP_SANITIZE})
  if(PSP_SANITIZE STREQUAL "off")
    set(modules ${CMAKE_BINARY_DIR}/lib/postgresql)
    file(GLOB debian /usr/lib/postgresql/*/bin/pg_config)
    list(PREPEND programs ${debian})
    list(APPEND programs ${PSP_PG_CONFIG})
  endif()
  foreach(program IN LISTS programs)
    execute_process(COMMAND ${program} --includedir-server OUTPUT_VARIABLE headers OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${program} --version OUTPUT_VARIABLE version)
    string(REGEX MATCH "[0-9]+" version "${version}")
    set(target ${name}_${version})
    if(NOT EXISTS ${headers}/postgres.h OR version LESS 15 OR TARGET ${target})
      continue()
    endif()
    add_dependencies(psp_server_modules ${target})
    add_library(${target} MODULE ${arg_SOURCES})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${modules}/${version} UNITY_BUILD OFF)
    target_include_directories(${target} SYSTEM PRIVATE ${headers})
    target_compile_options(${target} PRIVATE -include postgres.h  # which must be the first in every file
      -O2 -fno-strict-aliasing -fwrapv -Wall -Wextra -Werror -Wshadow -Wcast-qual
      -Wformat=2 -Wimplicit-fallthrough -Wundef -Wno-clobbered)
    target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
    target_link_libraries(${target} PRIVATE ${arg_LIBS})
    if(arg_LIBPQ)
      psp_link_libpq(${target} ${program})
    endif()
  endforeach()
endfunction()

# The libpq of this very server: dblink uses it too, and a process has one libpq only.
function(psp_link_libpq target program)
  execute_process(COMMAND ${program} --includedir OUTPUT_VARIABLE headers OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${program} --libdir OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  target_include_directories(${target} SYSTEM PRIVATE ${headers})
  set_target_properties(${target} PROPERTIES BUILD_RPATH ${folder})
  target_link_libraries(${target} PRIVATE ${folder}/libpq.so)
endfunction()
