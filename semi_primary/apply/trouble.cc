#include "semi_primary/apply/trouble.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace psp::sp {
namespace {

// How much of PostgreSQL's message goes into psp.status: rows may be large.
constexpr std::size_t kMessageBytesMax = 1000;

constexpr std::string_view kContext = " CONTEXT:  ";

// Frames of CONTEXT that tell only how psp came there: its own functions, and the one that runs a statement.
constexpr std::array<std::string_view, 2> kOwnFrames = {"PL/pgSQL function psp.",
                                                        "PL/pgSQL function pg_temp_"};

// psp's trigger refuses what code of the application writes. That code's frames come after it.
constexpr std::string_view kRefusingFrame = "PL/pgSQL function psp.refuse_replica() ";
constexpr std::string_view kItsEnd = " at RAISE ";

std::string WithoutRefusingFrame(std::string message) {
  const std::size_t begin = message.find(kRefusingFrame);
  const std::size_t end = begin == std::string::npos ? begin : message.find(kItsEnd, begin);
  return end == std::string::npos ? message : message.erase(begin, end + kItsEnd.size() - begin);
}

// CONTEXT begins with the innermost frame: the statement that failed, and functions of the application.
std::string WithoutOwnFrames(const std::string& whole_message) {
  const std::string message = WithoutRefusingFrame(whole_message);
  const std::size_t context = message.find(kContext);
  if (context == std::string::npos) return message;
  std::size_t end = message.size();
  for (const std::string_view frame : kOwnFrames)
    end = std::min(end, message.find(frame, context + kContext.size()));
  if (end == message.size()) return message;
  if (end == context + kContext.size()) return message.substr(0, context);
  return message.substr(0, message[end - 1] == ' ' ? end - 1 : end);
}

// Cut between two characters: it goes into a JSON text.
std::string Shortened(const std::string& text) {
  if (text.size() <= kMessageBytesMax) return text;
  std::size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

}  // namespace

void Trouble::Report(bool stops, GlobalT watermark, const PgError& error, std::string_view remedy) {
  const bool is_new = message_.empty();
  const auto text = [&](const std::string& message) {
    return (error.sqlstate.empty() ? "" : error.sqlstate + " ") + Shortened(message) + std::string(remedy);
  };
  const std::string what = text(WithoutOwnFrames(error.message));
  stopped_at_ = watermark;
  if (what == message_ && stops == stops_) return;
  message_ = what;
  stops_ = stops;
  if (is_new) since_ = now_();
  const std::string begin =
      std::string("applying ") + (stops ? "has stopped" : "waits") + " since " + since_ + ": ";
  notes_.push_back({stops ? Note::Level::kCritical : Note::Level::kWarning,
                    begin + text(error.message) + "; it is tried again"});
  report_(ApplyTrouble{begin + what, stops});
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
