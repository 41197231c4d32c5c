// Settings of a daemon: each declared once, completely; read from a flat YAML file and the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace psp {

// Declare every setting, then call Load once. One thread.
//
//   Settings settings("psp-primary", "Certifies, makes durable and replicates.");
//   settings.Text({.name = "listen", .description = "where to listen", .required = true}, &listen);
//   settings.Integer("executors", "sessions that decide batches", 2, 1, 64, &executors);
class Settings {
 public:
  // Returns an empty string, or what is wrong with the value.
  using Check = std::function<std::string(std::string_view value)>;

  struct TextSetting {
    std::string name;
    std::string description;
    std::string default_value{};
    bool required = false;
    std::vector<std::string> allowed{};  // empty: anything
    Check check{};
    std::string example{};   // shown in the sample for a required setting
    bool in_sample = false;  // shown there like a required one
  };
  struct BooleanSetting {
    std::string name;
    std::string description;
    bool default_value = false;
  };
  // Is told whether the setting was given. Returns what is wrong with it beside the other settings, or "".
  using Rule = std::function<std::string(bool given)>;

  enum class Outcome { kRun, kExitSuccess, kExitBadConfiguration };

  Settings(std::string program, std::string about);

  // The target keeps the value; it must outlive Load. It is set to the default at once.
  void Text(TextSetting setting, std::string* target);
  // The name ends with the unit.
  void Integer(std::string name, std::string description, std::int64_t default_value, std::int64_t min,
               std::int64_t max, std::int64_t* target);
  void Boolean(const BooleanSetting& setting, bool* target);  // true or false
  // Asked when every setting has its value and each value by itself is right.
  void Together(const std::string& name, Rule rule);

  // Reads --config FILE, then --key value from the command line over it. Knows also --help and
  // --print-sample-config (kExitSuccess, text written to `out`). All errors are collected and written to
  // `err`, one a line: "FILE:LINE: key: problem" or "command line: key: problem"; then kExitBadConfiguration
  // (exit code 2).
  Outcome Load(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

  const std::string& program() const { return program_; }
  void PrintHelp(std::ostream& out) const;
  void PrintSample(std::ostream& out) const;

 private:
  struct Entry {
    std::string name;
    std::string description;
    std::string type;      // for people: "text", "integer 1 to 64", "one of a, b"
    std::string fallback;  // the default as text
    std::string example;
    bool required = false;
    std::function<std::string(const std::string& value)> assign;  // returns what is wrong, or nothing
    bool in_sample = false;
    bool given = false;
    std::string where{};  // it was given
    Rule rule{};
  };

  Entry* Find(std::string_view name);
  void Assign(const std::string& where, const std::string& name, const std::string& value);
  // False when the file cannot be read.
  bool ReadFile(const std::string& path);
  void CheckTogether(const std::string& file, bool is_file_known);
  std::string NearestName(std::string_view name) const;

  std::string program_;
  std::string about_;
  std::vector<Entry> entries_;
  std::vector<std::string> errors_;
};

}  // namespace psp
