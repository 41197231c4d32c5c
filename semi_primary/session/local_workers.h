// The thesis's lworkers: threads that do the sessions' jobs in the local database, each with its own session.
//
// A job whose connection breaks is run again on the next connection, until its result is known. So each job
// may be done twice. Jobs begin in the order in which they came.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/pg_session.h"
#include "common/queue.h"
#include "semi_primary/session/types.h"

namespace psp::sp {

class LocalWorkers {
 public:
  // `database`: psp.this_database() of the one to work in; in another one nothing is done. `report` is called
  // on the workers' threads.
  LocalWorkers(const std::string& conninfo, const std::string& database, std::size_t workers,
               std::function<void(JobResult)> report);
  ~LocalWorkers() { Stop(); }

  void Start();
  // Any thread; does not wait (the sessions' core bounds what is under way).
  void Push(Job job);
  // Waits for the jobs under way and joins the threads; the others are dropped.
  void Stop();

 private:
  void Run(std::stop_token stop, std::size_t number);

  const std::string conninfo_;
  const std::string database_;
  const std::size_t workers_;
  const std::function<void(JobResult)> report_;
  BoundedQueue<Job> jobs_;
  std::vector<std::jthread> threads_;
};

}  // namespace psp::sp
