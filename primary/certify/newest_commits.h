// Of each semi-primary the newest of its commits to something, and those that it had not applied when it made that one.
// Each snapshot that has the newest one has what was left out, too. Pure; one thread.
#pragma once

#include <compare>
#include <optional>
#include <set>

#include "common/ids.h"
#include "primary/certify/types.h"

namespace psp::primary {

struct Commit {
  SpId sp_id = 0;
  GlobalT global_t = 0;

  friend auto operator<=>(const Commit&, const Commit&) = default;
};

class NewestCommits {
 public:
  // `watermark`: everything up to it was applied at the semi-primary.
  void Note(const Commit& commit, GlobalT watermark) {
    commits_.erase(commits_.lower_bound({commit.sp_id, 0}), commits_.upper_bound({commit.sp_id, watermark}));
    commits_.insert(commit);
  }

  // Whether it was noted, and not left out since then.
  bool Forget(const Commit& commit) { return commits_.erase(commit) > 0; }

  // The newest one that the snapshot lacks.
  std::optional<Commit> Missing(const SnapshotView& snapshot) const {
    std::optional<Commit> missing;
    for (const Commit& commit : commits_) {
      const bool is_newer = !missing || missing->global_t < commit.global_t;
      if (is_newer && !snapshot.Has(commit.global_t)) missing = commit;
    }
    return missing;
  }

  bool empty() const { return commits_.empty(); }

 private:
  std::set<Commit> commits_;
};

}  // namespace psp::primary
