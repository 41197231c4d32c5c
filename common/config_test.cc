#include "common/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace psp {
namespace {

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() : settings_("psp-test", "Tests settings.") {
    settings_.Text(
        {.name = "listen", .description = "where", .required = true, .example = "tcp://127.0.0.1:1"},
        &listen_);
    settings_.Text({.name = "log_level",
                    .description = "how much",
                    .default_value = "info",
                    .allowed = {"info", "warn"}},
                   &level_);
    settings_.Integer("executors", "sessions", 2, 1, 64, &executors_);
  }
  ~SettingsTest() override { std::filesystem::remove(path_); }

  void File(const std::string& text) { std::ofstream(path_) << text; }

  Settings::Outcome Load(std::vector<std::string> arguments) {
    std::vector<const char*> argv = {"psp-test"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return settings_.Load(static_cast<int>(argv.size()), argv.data(), out_, err_);
  }

  const std::string path_ = testing::TempDir() + "psp_config_test_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml";
  std::string listen_, level_;
  std::int64_t executors_ = 0;
  Settings settings_;
  std::ostringstream out_, err_;
};

TEST_F(SettingsTest, CommandLineGoesOverFileGoesOverDefault) {
  File("listen: tcp://127.0.0.1:5\nexecutors: 3\n");
  EXPECT_EQ(Load({"--config", path_, "--executors", "4"}), Settings::Outcome::kRun) << err_.str();
  EXPECT_EQ(listen_, "tcp://127.0.0.1:5");
  EXPECT_EQ(executors_, 4);
  EXPECT_EQ(level_, "info");
}

TEST_F(SettingsTest, AllErrorsAtOnceWithLineAndKey) {
  File("# comment\nexecutors: many\nlog_levl: info\nlog_level: loud\n");
  EXPECT_EQ(Load({"--config", path_}), Settings::Outcome::kExitBadConfiguration);
  const std::string err = err_.str();
  EXPECT_NE(err.find(path_ + ":2: executors: 'many' is not an integer"), std::string::npos) << err;
  EXPECT_NE(err.find(path_ + ":3: log_levl: no such setting (did you mean log_level?)"), std::string::npos)
      << err;
  EXPECT_NE(err.find(path_ + ":4: log_level: 'loud' is none of info, warn"), std::string::npos) << err;
  EXPECT_NE(err.find("listen: is required"), std::string::npos) << err;
}

TEST_F(SettingsTest, RangesHold) {
  EXPECT_EQ(Load({"--listen", "x", "--executors", "65"}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_NE(err_.str().find("command line: executors: 65 is out of range (integer, 1 to 64)"),
            std::string::npos)
      << err_.str();
}

TEST_F(SettingsTest, BooleansAreTrueOrFalse) {
  bool wait = false;
  settings_.Boolean({.name = "wait", .description = "whether", .default_value = true}, &wait);
  EXPECT_TRUE(wait);
  EXPECT_EQ(Load({"--listen", "x", "--wait", "false"}), Settings::Outcome::kRun) << err_.str();
  EXPECT_FALSE(wait);
  EXPECT_EQ(Load({"--listen", "x", "--wait", "yes"}), Settings::Outcome::kExitBadConfiguration);
}

TEST_F(SettingsTest, RulesAreAskedWhenEverySettingHasItsValue) {
  settings_.Together("log_level", [this](bool given) {
    return given && executors_ > 9 ? "is too talkative for so many" : "";
  });
  File("log_level: warn\nlisten: x\nexecutors: 10\n");
  EXPECT_EQ(Load({"--config", path_}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_EQ(err_.str(), path_ + ":1: log_level: is too talkative for so many\n");
  EXPECT_EQ(Load({"--config", path_, "--executors", "2"}), Settings::Outcome::kRun);
}

TEST_F(SettingsTest, UnknownOptionIsRefusedWithSuggestion) {
  EXPECT_EQ(Load({"--listen", "x", "--executer", "3"}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_NE(err_.str().find("executer: no such setting (did you mean executors?)"), std::string::npos)
      << err_.str();
}

TEST_F(SettingsTest, BrokenYamlTellsTheLine) {
  File("listen: x\nexecutors: [1\n");
  EXPECT_EQ(Load({"--config", path_}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_NE(err_.str().find("not valid YAML"), std::string::npos) << err_.str();
}

TEST_F(SettingsTest, NestedOrRepeatedKeysAreRefused) {
  File("listen: x\nlisten: y\nexecutors: {a: 1}\n");
  EXPECT_EQ(Load({"--config", path_}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_NE(err_.str().find(":2: listen: given twice"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find(":3: executors: needs one plain value"), std::string::npos) << err_.str();
}

TEST_F(SettingsTest, MistakesOnTheCommandLineAreToldAlone) {
  EXPECT_EQ(Load({"--executors"}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_EQ(err_.str().find("is required"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("--executors"), std::string::npos) << err_.str();
  err_.str("");
  EXPECT_EQ(Load({"--executors", "1", "--executors", "2", "--listen", "x"}),
            Settings::Outcome::kExitBadConfiguration);
  EXPECT_EQ(err_.str(), "command line: executors: given twice\n");
}

TEST_F(SettingsTest, MissingFileIsAnErrorAndTheOnlyOne) {
  EXPECT_EQ(Load({"--config", "/no/such/file"}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_EQ(err_.str().find("is required"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("/no/such/file: cannot be read"), std::string::npos) << err_.str();
  EXPECT_EQ(Load({"--config", "/tmp", "--listen", "x"}), Settings::Outcome::kExitBadConfiguration);
  EXPECT_NE(err_.str().find("/tmp: cannot be read"), std::string::npos) << err_.str();
}

TEST_F(SettingsTest, SampleIsAValidConfiguration) {
  EXPECT_EQ(Load({"--print-sample-config"}), Settings::Outcome::kExitSuccess);
  File(out_.str());
  EXPECT_EQ(Load({"--config", path_}), Settings::Outcome::kRun) << err_.str() << out_.str();
  EXPECT_EQ(listen_, "tcp://127.0.0.1:1");
}

TEST_F(SettingsTest, HelpNamesEverySettingAndDefault) {
  EXPECT_EQ(Load({"--help"}), Settings::Outcome::kExitSuccess);
  EXPECT_NE(out_.str().find("--executors (integer, 1 to 64; default 2)"), std::string::npos) << out_.str();
}

}  // namespace
}  // namespace psp
