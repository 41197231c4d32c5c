#include "common/metrics/text_format.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace psp {
namespace {

const char* NameOf(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::Type::kCounter:
      return "counter";
    case MetricFamily::Type::kHistogram:
      return "histogram";
    case MetricFamily::Type::kGauge:
      break;
  }
  return "gauge";
}

// HELP knows only the first two.
std::string Escaped(std::string_view text, bool is_label) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (is_label && c == '"')) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Such as {stage="answer",le="0.5"}; nothing without labels.
std::string Labels(const MetricLabels& labels, std::string_view le = {}) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out += fmt::format(R"({}{}="{}")", out.empty() ? "{" : ",", name, Escaped(value, true));
  }
  if (!le.empty()) out += fmt::format(R"({}le="{}")", out.empty() ? "{" : ",", le);
  return out.empty() ? out : out + "}";
}

void Append(std::string_view name, const MetricLabels& labels, const Histogram& histogram, std::string* out) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
    total += histogram.counts()[i];
    const bool is_last = i == histogram.bounds().size();
    const std::string le = is_last ? "+Inf" : Number(histogram.Shown(histogram.bounds()[i]));
    fmt::format_to(std::back_inserter(*out), "{}_bucket{} {}\n", name, Labels(labels, le), total);
  }
  const std::string plain = Labels(labels);
  fmt::format_to(std::back_inserter(*out), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name, plain,
                 Number(histogram.sum()), total);
}

}  // namespace

std::string RenderMetrics(const std::vector<MetricFamily>& families) {
  std::string out;
  for (const MetricFamily& family : families) {
    fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", family.name,
                   Escaped(family.help, false), NameOf(family.type));
    for (const MetricSample& sample : family.samples) {
      if (const auto* histogram = std::get_if<Histogram>(&sample.value)) {
        Append(family.name, sample.labels, *histogram, &out);
      } else {
        fmt::format_to(std::back_inserter(out), "{}{} {}\n", family.name, Labels(sample.labels),
                       Number(std::get<double>(sample.value)));
      }
    }
  }
  return out;
}

}  // namespace psp
