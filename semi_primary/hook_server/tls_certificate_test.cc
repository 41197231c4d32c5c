#include "semi_primary/hook_server/tls_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "semi_primary/hook_server/descriptors_limit.h"
#include "semi_primary/hook_server/test_certificates.h"

namespace psp::sp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TlsCertificateTest : public ::testing::Test {
 protected:
  TlsCertificateTest() : folder_(::mkdtemp(name_)), authority_(folder_) {}
  ~TlsCertificateTest() override { std::filesystem::remove_all(folder_); }
  TlsFiles Files(const std::string& certificate, const std::string& key) const {
    return {folder_ + "/" + certificate, folder_ + "/" + key};
  }
  static std::string ProblemOf(const TlsFiles& files, bool of_key) {
    const auto loaded = TlsCertificate::Load(files);
    EXPECT_FALSE(loaded.ok());
    if (loaded.ok()) return "";
    EXPECT_EQ(loaded.error().of_key, of_key);
    return loaded.error().what;
  }

  char name_[32] = "/tmp/psp_certificate_XXXXXX";
  const std::string folder_;
  TestAuthority authority_;
};

TEST_F(TlsCertificateTest, WhatIsWrongWithTheFilesIsTold) {
  authority_.Sign("one", "one.example");
  authority_.Sign("two", "two.example");
  std::ofstream(folder_ + "/empty.crt") << "nothing\n";
  EXPECT_THAT(ProblemOf(Files("none.crt", "one.key"), false), HasSubstr("none.crt': No such file"));
  EXPECT_THAT(ProblemOf(Files("empty.crt", "one.key"), false),
              HasSubstr("as a PEM certificate: no start line"));
  EXPECT_THAT(ProblemOf(Files("one.crt", "none.key"), true), HasSubstr("none.key': No such file"));
  EXPECT_THAT(ProblemOf(Files("one.crt", "two.key"), true), HasSubstr("key values mismatch"));
  authority_.MakeRsaKey("rsa");
  EXPECT_THAT(ProblemOf(Files("one.crt", "rsa.key"), true), HasSubstr("rsa.key' is not the key of"));
  ::chmod((folder_ + "/one.key").c_str(), 0644);
  EXPECT_THAT(ProblemOf(Files("one.crt", "one.key"), true), HasSubstr("chmod 600"));
}

TEST_F(TlsCertificateTest, WhatClientsWillNotAcceptIsToldBefore) {
  authority_.Sign("good", "one.example", true);
  authority_.Sign("soon", "one.example", true, 3600);
  authority_.Sign("old", "one.example", true, -3600);
  const std::time_t now = std::time(nullptr);
  const auto warnings = [&](const std::string& name, const std::string& host) {
    return TlsCertificate::Load(Files(name + ".crt", name + ".key"))->Warnings(host, now);
  };
  EXPECT_THAT(warnings("good", "one.example"), IsEmpty());
  EXPECT_THAT(warnings("good", "127.0.0.1"), IsEmpty());
  EXPECT_THAT(warnings("good", "127.0.0.2"), ElementsAre(HasSubstr("does not name 127.0.0.2")));
  EXPECT_THAT(warnings("soon", "two.example"),
              ElementsAre(HasSubstr("expires at 20"), HasSubstr("two.example")));
  EXPECT_THAT(warnings("old", "one.example"), ElementsAre(HasSubstr("has expired at 20")));
}

TEST_F(TlsCertificateTest, AChangedFileIsReadAgainAndTheOldOneStaysIfItIsWrong) {
  authority_.Sign("one", "one.example");
  auto certificate = TlsCertificate::Load(Files("one.crt", "one.key"));
  const auto names_two = [&] { return certificate->Warnings("two.example", std::time(nullptr)).empty(); };
  EXPECT_EQ(certificate->Renew(), "");
  authority_.Sign("two", "two.example");
  std::filesystem::rename(folder_ + "/two.crt", folder_ + "/one.crt");
  EXPECT_THAT(certificate->Renew(), HasSubstr("key values mismatch"));
  EXPECT_EQ(certificate->Renew(), "");
  EXPECT_FALSE(names_two());
  std::filesystem::rename(folder_ + "/two.key", folder_ + "/one.key");
  EXPECT_EQ(certificate->Renew(), "");
  EXPECT_TRUE(names_two());
  authority_.MakeRsaKey("one");
  EXPECT_THAT(certificate->Renew(), HasSubstr("is not the key of"));
  EXPECT_TRUE(names_two());
}

TEST_F(TlsCertificateTest, AFileThatMayBeReadAtLastIsReadAgain) {
  authority_.Sign("one", "one.example");
  auto certificate = TlsCertificate::Load(Files("one.crt", "one.key"));
  authority_.Sign("two", "two.example");
  ::chmod((folder_ + "/two.key").c_str(), 0644);
  std::filesystem::rename(folder_ + "/two.key", folder_ + "/one.key");
  std::filesystem::rename(folder_ + "/two.crt", folder_ + "/one.crt");
  EXPECT_THAT(certificate->Renew(), HasSubstr("chmod 600"));
  ::chmod((folder_ + "/one.key").c_str(), 0600);
  EXPECT_EQ(certificate->Renew(), "");
  EXPECT_THAT(certificate->Warnings("two.example", std::time(nullptr)), IsEmpty());
}

TEST_F(TlsCertificateTest, WhatCouldNotBeReadForAMomentIsReadAgain) {
  authority_.Sign("one", "one.example");
  auto certificate = TlsCertificate::Load(Files("one.crt", "one.key"));
  authority_.Sign("two", "two.example");
  std::filesystem::rename(folder_ + "/two.key", folder_ + "/one.key");
  std::filesystem::rename(folder_ + "/two.crt", folder_ + "/one.crt");
  {
    const DescriptorsLimit none(0);
    EXPECT_THAT(certificate->Renew(), HasSubstr("Too many open files"));
    EXPECT_EQ(certificate->Renew(), "") << "it is told once";
  }
  EXPECT_EQ(certificate->Renew(), "");
  EXPECT_THAT(certificate->Warnings("two.example", std::time(nullptr)), IsEmpty());
}

}  // namespace
}  // namespace psp::sp
