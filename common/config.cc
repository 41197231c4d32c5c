#include "common/config.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <ostream>

namespace psp {
namespace {

std::string Join(const std::vector<std::string>& words, std::string_view between) {
  std::string all;
  for (const std::string& word : words) {
    if (!all.empty()) all += between;
    all += word;
  }
  return all;
}

struct Range {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

std::string IntegerType(const Range& range) {
  if (range.max == INT64_MAX) return "integer, at least " + std::to_string(range.min);
  return "integer, " + std::to_string(range.min) + " to " + std::to_string(range.max);
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

// A YAML text that reads back as this very string.
std::string Quoted(const std::string& text) {
  YAML::Emitter out;
  out << text;
  return text.empty() ? "''" : out.c_str();
}

std::string AssignText(const Settings::TextSetting& setting, const std::string& value, std::string* target) {
  if (setting.required && value.empty()) return "must not be empty";
  const auto& allowed = setting.allowed;
  if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    return "'" + value + "' is none of " + Join(allowed, ", ");
  }
  if (setting.check) {
    if (std::string problem = setting.check(value); !problem.empty()) return problem;
  }
  *target = value;
  return {};
}

std::string AssignInteger(const Range& range, const std::string& value, std::int64_t* target) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, problem] = std::from_chars(value.data(), end, number);
  if (value.empty() || rest != end || problem != std::errc{}) return "'" + value + "' is not an integer";
  if (number < range.min || number > range.max) {
    return value + " is out of range (" + IntegerType(range) + ")";
  }
  *target = number;
  return {};
}

}  // namespace

Settings::Settings(std::string program, std::string about)
    : program_(std::move(program)), about_(std::move(about)) {}

void Settings::Text(TextSetting setting, std::string* target) {
  *target = setting.default_value;
  Entry entry{.name = setting.name,
              .description = setting.description,
              .type = setting.allowed.empty() ? "text" : "one of " + Join(setting.allowed, ", "),
              .fallback = Quoted(setting.default_value),
              .example = Quoted(setting.example),
              .required = setting.required,
              .assign = {},
              .in_sample = setting.required || setting.in_sample};
  entry.assign = [setting = std::move(setting), target](const std::string& value) {
    return AssignText(setting, value, target);
  };
  entries_.push_back(std::move(entry));
}

void Settings::Integer(std::string name, std::string description, std::int64_t default_value,
                       std::int64_t min, std::int64_t max, std::int64_t* target) {
  *target = default_value;
  const Range range{min, max};
  const std::string fallback = std::to_string(default_value);
  entries_.push_back(
      {.name = std::move(name),
       .description = std::move(description),
       .type = IntegerType(range),
       .fallback = fallback,
       .example = fallback,
       .assign = [range, target](const std::string& value) { return AssignInteger(range, value, target); }});
}

void Settings::Boolean(const BooleanSetting& setting, bool* target) {
  *target = setting.default_value;
  const std::string fallback = setting.default_value ? "true" : "false";
  entries_.push_back({.name = setting.name,
                      .description = setting.description,
                      .type = "true or false",
                      .fallback = fallback,
                      .example = fallback,
                      .assign = [target](const std::string& value) -> std::string {
                        if (value != "true" && value != "false")
                          return "'" + value + "' is not true or false";
                        *target = value == "true";
                        return {};
                      }});
}

void Settings::Together(const std::string& name, Rule rule) { Find(name)->rule = std::move(rule); }

Settings::Entry* Settings::Find(std::string_view name) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::string Settings::NearestName(std::string_view name) const {
  std::string nearest;
  std::size_t best = name.size() / 2 + 1;  // a larger distance is no misspelling
  for (const Entry& entry : entries_) {
    const std::size_t distance = EditDistance(name, entry.name);
    if (distance >= best) continue;
    best = distance;
    nearest = entry.name;
  }
  return nearest;
}

void Settings::Assign(const std::string& where, const std::string& name, const std::string& value) {
  Entry* entry = Find(name);
  if (entry == nullptr) {
    const std::string nearest = NearestName(name);
    errors_.push_back(where + ": " + name + ": no such setting" +
                      (nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
    return;
  }
  entry->given = true;
  entry->where = where;
  if (const std::string problem = entry->assign(value); !problem.empty()) {
    errors_.push_back(where + ": " + name + ": " + problem);
  }
}

bool Settings::ReadFile(const std::string& path) {
  const auto at = [&path](const YAML::Mark& mark) { return path + ":" + std::to_string(mark.line + 1); };
  std::ifstream file(path);
  file.peek();  // a directory can be opened, but not read
  if (file.bad() || !file.is_open()) {
    errors_.push_back(path + ": cannot be read");
    return false;
  }
  try {
    const YAML::Node root = YAML::Load(file);
    if (root.IsNull()) return true;
    if (!root.IsMap()) {
      errors_.push_back(at(root.Mark()) + ": expected lines of the form key: value");
      return false;
    }
    std::vector<std::string> seen;
    for (const auto& pair : root) {
      const std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "(not a name)";
      const std::string where = at(pair.first.Mark());
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        errors_.push_back(where + ": " + name + ": given twice");
      } else if (!pair.second.IsScalar()) {
        errors_.push_back(where + ": " + name + ": needs one plain value");
      } else {
        Assign(where, name, pair.second.Scalar());
      }
      seen.push_back(name);
    }
  } catch (const YAML::Exception& problem) {
    errors_.push_back(at(problem.mark) + ": not valid YAML: " + problem.msg);
    return false;
  }
  return true;
}

Settings::Outcome Settings::Load(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app(about_, program_);
  app.set_help_flag();
  bool help = false;
  bool sample = false;
  bool version = false;
  std::string path;
  app.add_flag("--help,-h", help);
  app.add_flag("--version", version);
  app.add_flag("--print-sample-config", sample);
  app.add_option("--config", path);
  std::vector<std::vector<std::string>> overrides(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    app.add_option("--" + entries_[i].name, overrides[i])->allow_extra_args(false);
  }
  app.allow_extras();
  errors_.clear();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    err << "command line: " << problem.what() << "\n";  // what else was given is not known then
    return Outcome::kExitBadConfiguration;
  }
  if (help) {
    PrintHelp(out);
    return Outcome::kExitSuccess;
  }
  if (version) {
    out << program_ << " " << PSP_VERSION << "\n";
    return Outcome::kExitSuccess;
  }
  if (sample) {
    PrintSample(out);
    return Outcome::kExitSuccess;
  }
  for (const std::string& extra : app.remaining()) {
    if (extra.starts_with("--")) Assign("command line", extra.substr(2, extra.find('=') - 2), "");
    if (!extra.starts_with("-")) errors_.push_back("command line: " + extra + ": not expected here");
  }
  const bool is_file_known = path.empty() || ReadFile(path);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (overrides[i].size() > 1) errors_.push_back("command line: " + entries_[i].name + ": given twice");
    if (!overrides[i].empty()) Assign("command line", entries_[i].name, overrides[i].back());
  }
  CheckTogether(path.empty() ? "command line" : path, is_file_known);
  for (const std::string& error : errors_) err << error << "\n";
  return errors_.empty() ? Outcome::kRun : Outcome::kExitBadConfiguration;
}

// When all values are known: what is missing, and what does not fit together. `file`: where a missing one belongs.
void Settings::CheckTogether(const std::string& file, bool is_file_known) {
  for (const Entry& entry : entries_) {
    if (entry.required && !entry.given && is_file_known) {
      errors_.push_back(file + ": " + entry.name + ": is required");
    }
  }
  for (const Entry& entry : entries_) {
    if (!errors_.empty() || !entry.rule) continue;
    const std::string problem = entry.rule(entry.given);
    if (problem.empty()) continue;
    errors_.push_back((entry.given ? entry.where : file) + ": " + entry.name + ": " + problem);
  }
}

void Settings::PrintHelp(std::ostream& out) const {
  out << program_ << ": " << about_ << "\n\nUsage: " << program_
      << " --config FILE [--key value ...]\n\n"
         "  --config FILE            flat YAML file of the settings below; the command line goes over it\n"
         "  --print-sample-config    write a commented sample file and exit\n"
         "  --version                print the version and exit\n"
         "  --help                   this text\n\nSettings:\n";
  for (const Entry& entry : entries_) {
    out << "  --" << entry.name << " (" << entry.type << "; "
        << (entry.required ? "required" : "default " + entry.fallback) << ")\n        " << entry.description
        << "\n";
  }
}

void Settings::PrintSample(std::ostream& out) const {
  out << "# Configuration of " << program_ << ". Every key can also be given as --key value.\n";
  for (const Entry& entry : entries_) {
    out << "\n# " << entry.description << "\n# " << entry.type << "; "
        << (entry.required ? "required" : "default " + entry.fallback) << "\n"
        << (entry.in_sample ? "" : "# ") << entry.name << ": "
        << (entry.in_sample ? entry.example : entry.fallback) << "\n";
  }
}

}  // namespace psp
