// Metrics as text, in Prometheus' format 0.0.4. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/metrics/histogram.h"

namespace psp {

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// A name such as `stage`, which is ours, and a value, which may be any text.
using MetricLabel = std::pair<std::string_view, std::string>;
using MetricLabels = std::vector<MetricLabel>;

struct MetricSample {
  MetricLabels labels;
  std::variant<double, Histogram> value;
};

// All that has one name. It is shown also without a sample.
struct MetricFamily {
  enum class Type { kCounter, kGauge, kHistogram };

  std::string_view name;
  Type type = Type::kGauge;
  std::string_view help;
  std::vector<MetricSample> samples{};

  template <class Number>
  void Add(MetricLabels labels, Number value) {
    samples.push_back({std::move(labels), static_cast<double>(value)});
  }
  void Add(MetricLabels labels, const Histogram& value) { samples.push_back({std::move(labels), value}); }
  // The same family with one sample more.
  template <class Value>
  MetricFamily With(MetricLabels labels, const Value& value) && {
    Add(std::move(labels), value);
    return std::move(*this);
  }
};

std::string RenderMetrics(const std::vector<MetricFamily>& families);

}  // namespace psp
