// A protobuf message as a JSON object with the names of its fields, those without a value too. 64-bit numbers are strings.
#pragma once

#include <google/protobuf/util/json_util.h>

#include <string>

namespace psp {

// Empty if a text is no UTF-8.
inline std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const bool done = google::protobuf::util::MessageToJsonString(message, &json, options).ok();
  return done ? json : std::string();
}

}  // namespace psp
