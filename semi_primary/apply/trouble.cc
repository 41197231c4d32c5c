#include "semi_primary/apply/trouble.h"

namespace psp::sp {
namespace {

// How much of PostgreSQL's message goes into psp.status: rows may be large.
constexpr std::size_t kMessageBytesMax = 1000;

// Cut between two characters: it goes into a JSON text.
std::string Shortened(const std::string& text) {
  if (text.size() <= kMessageBytesMax) return text;
  std::size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

}  // namespace

void Trouble::Report(bool stops, GlobalT watermark, const std::string& sqlstate, const std::string& message) {
  const bool is_new = message_.empty();
  const std::string what = (sqlstate.empty() ? "" : sqlstate + " ") + Shortened(message);
  stopped_at_ = watermark;
  if (what == message_ && stops == stops_) return;
  message_ = what;
  stops_ = stops;
  if (is_new) since_ = now_();
  const std::string told =
      std::string("applying ") + (stops ? "has stopped" : "waits") + " since " + since_ + ": " + what;
  notes_.push_back({stops ? Note::Level::kCritical : Note::Level::kWarning, told + "; it is tried again"});
  report_(ApplyTrouble{told, stops});
}

void Trouble::Began() {
  if (!message_.empty() && stopped_at_ == kAnySuccess) Over();
}

void Trouble::Succeeded(GlobalT watermark) {
  if (watermark <= stopped_at_) return;
  pause_.Reset();
  if (!message_.empty()) Over();
}

void Trouble::Over() {
  message_.clear();
  stopped_at_ = kAnySuccess;
  notes_.push_back({Note::Level::kInfo, "applying goes on; it had waited or stopped since " + since_});
  report_(ApplyTrouble{});
}

}  // namespace psp::sp
