#include "benchmarks/wan/tun.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace psp::wan {
namespace {

constexpr const char* kDevice = "wan0";
constexpr uint32_t kNetmask = 0xffffff00;
constexpr int kQueuePackets = 10000;  // the kernel's own queue must not lose what a burst brings

int Checked(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

// The calling thread is in another network namespace as long as this lives.
class Inside {
 public:
  explicit Inside(const std::string& name)
      : home_(Checked(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "own network namespace")) {
    const std::string path = "/run/netns/" + name;
    const FileDescriptor there(Checked(open(path.c_str(), O_RDONLY | O_CLOEXEC), path));
    Checked(setns(there.get(), CLONE_NEWNET), "entering " + path);
  }
  ~Inside() { setns(home_.get(), CLONE_NEWNET); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  FileDescriptor home_;
};

ifreq Request(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

sockaddr Address(uint32_t address) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = address;
  sockaddr result{};
  static_assert(sizeof in == sizeof result);
  std::memcpy(&result, &in, sizeof in);
  return result;
}

void SetUp(int socket, const char* device) {
  ifreq request = Request(device);
  Checked(ioctl(socket, SIOCGIFFLAGS, &request), "reading a device's state");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  Checked(ioctl(socket, SIOCSIFFLAGS, &request), "switching a device on");
}

void Configure(const Site& site) {
  const FileDescriptor socket(Checked(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
  ifreq request = Request(kDevice);
  request.ifr_addr = Address(site.address);
  Checked(ioctl(socket.get(), SIOCSIFADDR, &request), "giving an address");
  request.ifr_netmask = Address(htonl(kNetmask));
  Checked(ioctl(socket.get(), SIOCSIFNETMASK, &request), "giving a netmask");
  request.ifr_qlen = kQueuePackets;
  Checked(ioctl(socket.get(), SIOCSIFTXQLEN, &request), "setting the length of a queue");
  SetUp(socket.get(), "lo");
  SetUp(socket.get(), kDevice);
}

}  // namespace

FileDescriptor OpenDevice(const Site& site) {
  const Inside inside(site.network_namespace);
  FileDescriptor device(Checked(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun"));
  ifreq request = Request(kDevice);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  Checked(ioctl(device.get(), TUNSETIFF, &request), "making a device");
  Checked(ioctl(device.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4), "TUNSETOFFLOAD");
  Configure(site);
  return device;
}

}  // namespace psp::wan
