#include "primary/core/lost_key_reports.h"

#include "common/message_json.h"

namespace psp::primary {
namespace {

constexpr int kWindowsMax = 10;
constexpr int kKeysMax = 100;

bool HasZero(const std::string& text) { return text.find('\0') != std::string::npos; }

// jsonb takes no zero byte.
bool HasZero(const proto::LossReport::Key& key) {
  if (HasZero(key.schema_name()) || HasZero(key.table_name()) || HasZero(key.index_name()) ||
      HasZero(key.key()) || HasZero(key.remedy())) {
    return true;
  }
  for (const auto& winner : key.winners()) {
    if (HasZero(winner.name())) return true;
  }
  for (const std::string& column : key.changed_columns()) {
    if (HasZero(column)) return true;
  }
  return false;
}

}  // namespace

std::string LostKeyReports::Add(SpId sp_id, const proto::LossReport& report) {
  if (report.ByteSizeLong() > kBytesMax) return "it is too long";
  if (report.windows_size() > kWindowsMax) return "it has too many windows";
  for (const auto& window : report.windows()) {
    if (window.keys_size() > kKeysMax) return "it has too many keys";
    for (const auto& key : window.keys()) {
      if (HasZero(key)) return "a text has a zero byte";
    }
  }
  std::string json = ToJson(report);
  if (json.empty()) return "a text is no UTF-8";
  news_[sp_id] = std::move(json);
  return "";
}

}  // namespace psp::primary
