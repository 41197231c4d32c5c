#include "benchmarks/geo/relay.h"

#include <functional>
#include <memory>
#include <system_error>
#include <utility>

namespace psp::geo {
namespace {

using asio::ip::tcp;
using std::error_code;

constexpr size_t kReadBytes = 256U << 10U;
constexpr size_t kBuffersPerWrite = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};

// One direction of a connection: reads from one socket, queues, writes to the other when the time has come.
// `keep` holds the session, and so the pipe and both sockets, while an operation is under way.
class Pipe {
 public:
  Pipe(tcp::socket& from, tcp::socket& to, Link& link, size_t bytes_max, std::vector<char>& scratch)
      : from_(from), to_(to), queue_(link, bytes_max), timer_(from.get_executor()), scratch_(scratch) {}

  // Called once when `to` is connected. `broken`: this direction cannot be written to any more.
  void Start(const std::shared_ptr<void>& keep, std::function<void()> broken) {
    broken_ = std::move(broken);
    Read(keep);
  }

  // Lets a reset arrive at the other end after what is already under way.
  void PushReset(const std::shared_ptr<void>& keep) {
    if (reset_pushed_) return;
    reset_pushed_ = true;
    Push(keep, Segment::Kind::kReset, {});
  }

 private:
  void Read(const std::shared_ptr<void>& keep) {
    if (reading_ || ended_ || queue_.Full()) return;
    reading_ = true;
    from_.async_wait(tcp::socket::wait_read, [this, keep](const error_code& error) {
      reading_ = false;
      if (!ended_) ReadNow(keep, error);
    });
  }

  void ReadNow(const std::shared_ptr<void>& keep, error_code error) {
    size_t bytes = 0;
    if (!error) bytes = from_.read_some(asio::buffer(scratch_), error);
    if (error == asio::error::would_block) return Read(keep);
    if (error == asio::error::eof) {
      ended_ = true;
      return Push(keep, Segment::Kind::kEnd, {});
    }
    if (error) {
      ended_ = true;
      return PushReset(keep);
    }
    Push(keep, Segment::Kind::kData, {scratch_.data(), bytes});
    Read(keep);
  }

  void Push(const std::shared_ptr<void>& keep, Segment::Kind kind, std::string_view data) {
    queue_.Push(Clock::now(), kind, data);
    if (!writing_ && queue_.segments().size() == 1) Wait(keep);
  }

  void Wait(const std::shared_ptr<void>& keep) {
    timer_.expires_at(queue_.segments().front().due);
    timer_.async_wait([this, keep](const error_code& error) {
      if (!error) Deliver(keep);
    });
  }

  void Deliver(const std::shared_ptr<void>& keep) {
    const Time now = Clock::now();
    std::vector<asio::const_buffer> buffers;
    for (const Segment& segment : queue_.segments()) {
      if (segment.kind != Segment::Kind::kData || segment.due > now || buffers.size() == kBuffersPerWrite)
        break;
      buffers.emplace_back(asio::buffer(segment.data));
    }
    if (buffers.empty()) return DeliverEnd(keep);
    writing_ = true;
    const size_t segments = buffers.size();
    asio::async_write(to_, buffers, [this, keep, segments](const error_code& error, size_t) {
      writing_ = false;
      if (error) return Break();
      for (size_t i = 0; i < segments; ++i) queue_.Pop();
      if (!queue_.Empty()) Wait(keep);
      Read(keep);
    });
  }

  // The first segment is due and is not data: no data follows it.
  void DeliverEnd(const std::shared_ptr<void>& keep) {
    error_code ignored;  // the peer may be gone already, and then there is nothing left to tell it
    if (queue_.segments().front().kind == Segment::Kind::kEnd) {
      to_.shutdown(tcp::socket::shutdown_send, ignored);
    } else {
      to_.set_option(asio::socket_base::linger(true, 0), ignored);
      to_.close(ignored);
      from_.close(ignored);
    }
    queue_.Pop();
    if (!queue_.Empty()) Wait(keep);  // a reset after an end
  }

  void Break() {
    ended_ = true;
    queue_.Clear();
    if (broken_) broken_();
  }

  tcp::socket& from_;
  tcp::socket& to_;
  SegmentQueue queue_;
  asio::steady_timer timer_;
  std::vector<char>& scratch_;
  std::function<void()> broken_;
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;  // nothing more will be read
  bool reset_pushed_ = false;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket client, const RelayOptions& options, Link& to_target, Link& to_client,
          std::vector<char>& scratch)
      : client_(std::move(client)),
        target_(client_.get_executor()),
        resolver_(client_.get_executor()),
        there_(client_, target_, to_target, options.in_flight_bytes_max, scratch),
        back_(target_, client_, to_client, options.in_flight_bytes_max, scratch) {}

  void Start(const RelayOptions& options) {
    auto self = shared_from_this();
    resolver_.async_resolve(
        options.target_host, options.target_port,
        [this, self](const error_code& error, const tcp::resolver::results_type& endpoints) {
          if (error) return;  // the session goes, and with it the client's connection
          asio::async_connect(target_, endpoints,
                              [this, self](const error_code& refused, const tcp::endpoint&) {
                                if (!refused) Connected();
                              });
        });
  }

 private:
  void Connected() {
    for (tcp::socket* socket : {&client_, &target_}) {
      error_code gone;  // a client that has left already shows up in the first read
      socket->set_option(tcp::no_delay(true), gone);
      socket->non_blocking(true, gone);
    }
    auto self = shared_from_this();
    std::weak_ptr<Session> weak = self;
    there_.Start(self, [weak] {
      if (auto session = weak.lock()) session->back_.PushReset(session);
    });
    back_.Start(self, [weak] {
      if (auto session = weak.lock()) session->there_.PushReset(session);
    });
  }

  tcp::socket client_;
  tcp::socket target_;
  tcp::resolver resolver_;
  Pipe there_;
  Pipe back_;
};

tcp::endpoint Resolve(asio::io_context& io, const std::string& host, const std::string& port) {
  return *tcp::resolver(io).resolve(host, port, tcp::resolver::passive).begin();
}

}  // namespace

Relay::Relay(asio::io_context& io, const RelayOptions& options)
    : options_(options),
      acceptor_(io, Resolve(io, options.listen_host, options.listen_port)),
      accept_again_(io),
      to_target_(options.one_way, options.bytes_per_s),
      to_client_(options.one_way, options.bytes_per_s),
      scratch_(kReadBytes) {
  Accept();
}

void Relay::Accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket client) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      accept_again_.expires_after(kAcceptPause);
      accept_again_.async_wait([this](const error_code& stopped) {
        if (!stopped) Accept();
      });
      return;
    }
    std::make_shared<Session>(std::move(client), options_, to_target_, to_client_, scratch_)->Start(options_);
    Accept();
  });
}

}  // namespace psp::geo
