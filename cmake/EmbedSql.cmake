# psp_embed_sql(primary_sql NAMESPACE psp::sql FOLDER sql/primary/daemon FILES certify_batch.sql ...)
#
# Makes the library `primary_sql` that holds each file's text, so that a daemon is one file and the SQL stays
# readable. Link the library and include its header:
#     #include "embedded/primary_sql.h"      // psp::sql::kCertifyBatch, a std::string_view
# With LANGUAGE C the texts are `static const char kCertifyBatch[]`, and there is no namespace.
# The folder is relative to the root of the tree. @NAME@ in a file is a number of sql/constants.txt.
set(PSP_EMBED_SQL_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_sql_script.cmake)

function(psp_embed_sql target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAMESPACE;FOLDER;LANGUAGE" "FILES")
  if(NOT (arg_NAMESPACE OR arg_LANGUAGE STREQUAL "C") OR NOT arg_FOLDER OR NOT arg_FILES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "psp_embed_sql(${target}): needs NAMESPACE or LANGUAGE C, FOLDER and FILES")
  endif()
  set(files)
  foreach(file IN LISTS arg_FILES)
    list(APPEND files ${CMAKE_SOURCE_DIR}/${arg_FOLDER}/${file})
  endforeach()
  set(include_dir ${CMAKE_CURRENT_BINARY_DIR}/${target}_include)
  set(header ${include_dir}/embedded/${target}.h)
  string(REPLACE ";" "|" joined "${files}")
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DHEADER=${header} -DNAMESPACE=${arg_NAMESPACE} -DLANGUAGE=${arg_LANGUAGE} "-DFILES=${joined}"
            -DCONSTANTS=${PSP_CONSTANTS}
            -P ${PSP_EMBED_SQL_SCRIPT}
    DEPENDS ${files} ${PSP_CONSTANTS} ${PSP_EMBED_SQL_SCRIPT}
    COMMENT "Embedding SQL: ${target}.h"
    VERBATIM)
  add_custom_target(${target}_generate DEPENDS ${header})
  add_library(${target} INTERFACE)
  target_include_directories(${target} INTERFACE ${include_dir})
  add_dependencies(${target} ${target}_generate)
endfunction()
