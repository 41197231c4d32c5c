#include "semi_primary/core/stream_intake.h"

namespace psp::sp {

void StreamIntake::Restart(std::uint64_t generation, GlobalT watermark) {
  generation_ = generation;
  position_.Reset(watermark);
}

void StreamIntake::OnTaken() {
  requested_ = false;
  failure_.clear();
}

void StreamIntake::OnMalformed(GlobalT from_t, std::string failure) {
  requested_ = false;
  failure_ = std::move(failure);
  position_.Reset(from_t);
}

void StreamIntake::OnRequested(std::int64_t now_us) {
  requested_ = true;
  requested_us_ = now_us;
}

}  // namespace psp::sp
