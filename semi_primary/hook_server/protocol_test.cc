#include "semi_primary/hook_server/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/hex.h"
#include "common/pg_binary.h"
#include "semi_primary/hook_server/proof.h"
#include "semi_primary/hook_server/wire.h"

namespace psp::sp {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTx = "00112233-4455-6677-8899-aabbccddeeff";
constexpr const char* kCommitHead = "00112233-4455-6677-8899-aabbccddeeff 1 10 -";

std::string Startup(std::uint32_t code, std::string_view parameters = "") {
  std::string out;
  AppendInt32(&out, static_cast<std::int32_t>(8 + parameters.size()));
  AppendInt32(&out, static_cast<std::int32_t>(code));
  return out.append(parameters);
}

std::string Message(char type, std::string_view text) {
  std::string out(1, type);
  AppendInt32(&out, static_cast<std::int32_t>(4 + text.size() + 1));
  return out.append(text).append(1, '\0');
}

// The types of the messages in `output`, such as "RSSSSSZ".
std::string Types(std::string_view output) {
  std::string types;
  while (output.size() >= wire::kHeaderBytes) {
    types.push_back(output[0]);
    output.remove_prefix(1 + wire::LoadUint32(output.substr(1)));
  }
  return types;
}

class HookProtocolTest : public ::testing::Test {
 protected:
  std::string Send(std::string_view bytes) {
    protocol_.Feed(bytes);
    return protocol_.TakeOutput();
  }
  void LogIn() {
    Send(Startup(wire::kProtocol3, std::string_view("user\0psp\0\0", 10)));
    ASSERT_EQ(Types(Send(Message('p', Password()))), "RSSSSSZ");
  }
  static std::string Password() { return Proof("secret", "login") + "@here"; }
  static std::string Outcome() {
    const std::string request = std::string("outcome ") + kTx + " 10";
    return Message('Q', request + " " + Proof("secret", request));
  }
  // It takes time to read, though it is short.
  std::string SendStatements(const std::string& message) {
    EXPECT_EQ(Send(Statements(message)), "");
    const auto line = protocol_.TakeLongRequest();
    if (line) protocol_.OnRead(ParseRequest(*line, "secret", 1 << 20));
    return protocol_.TakeOutput();
  }
  static std::string Statements(const std::string& message) {
    return Message('Q', "statements 10 " + Proof("secret", "statements 10 " + Sha256(message)) + " " +
                            EncodeHex(message));
  }
  // The captures of a transaction that captured key `a` of table 7 as often as `times` says.
  static std::string Chunks(int times) {
    std::string id;
    AppendInt32(&id, 7);
    std::string entry;
    AppendRecord(&entry, {{kOidBytea, "a"}});
    std::string chunks;
    for (int i = 0; i < times; ++i) {
      AppendRecord(&chunks, {{kOidCid, id}, {kOidInt4, id}, {kOidChar, "d"}, {kOidBytea, entry}});
    }
    return chunks;
  }
  static Proofs ProofsOfCommit(const std::string& chunks) {
    return ProofsOf("secret", std::string(kCommitHead) + Sha256(chunks));
  }
  static std::string Commit(int times) {
    const std::string chunks = Chunks(times);
    return Message('Q', "commit " + std::string(kCommitHead) + " " + ProofsOfCommit(chunks).request + " " +
                            EncodeHex(chunks));
  }
  static std::string Rows(const std::string& found) {
    const std::string head = std::string("rows ") + kTx + " ";
    return Message('Q', head + Proof("secret", head + Sha256(found)) + " " + EncodeHex(found));
  }

  const HookProtocol::Options options_{"secret", "here", 200};
  HookProtocol protocol_{options_};
};

TEST_F(HookProtocolTest, Login) {
  EXPECT_EQ(Send(Startup(wire::kSslRequest)), "N");
  EXPECT_EQ(Send(Startup(wire::kGssEncRequest)), "N");
  EXPECT_FALSE(protocol_.authenticated());
  LogIn();
  EXPECT_TRUE(protocol_.authenticated());
}

TEST_F(HookProtocolTest, ByteByByte) {
  std::string output;
  const std::string all = Startup(wire::kProtocol3) + Message('p', Password()) + Message('Q', "ping");
  for (const char byte : all) output += Send({&byte, 1});
  EXPECT_EQ(Types(output), "RRSSSSSZTDCZ");
}

TEST_F(HookProtocolTest, AllAtOnce) {
  EXPECT_EQ(Types(Send(Startup(wire::kProtocol3) + Message('p', Password()) + Message('Q', "ping"))),
            "RRSSSSSZTDCZ");
}

TEST_F(HookProtocolTest, WrongPasswordEndsTheConnection) {
  Send(Startup(wire::kProtocol3));
  EXPECT_THAT(Send(Message('p', "guess")), HasSubstr("28P01"));
  EXPECT_TRUE(protocol_.closed());
}

TEST_F(HookProtocolTest, CancelRequestIsIgnored) {
  EXPECT_EQ(Send(Startup(wire::kCancelRequest, "12345678")), "");
  EXPECT_TRUE(protocol_.closed());
}

TEST_F(HookProtocolTest, MalformedStartup) {
  EXPECT_THAT(Send(std::string(8, '\xff')), HasSubstr("08P01"));
  EXPECT_TRUE(protocol_.closed());
}

TEST_F(HookProtocolTest, OldProtocolVersion) {
  EXPECT_THAT(Send(Startup(2 << 16)), HasSubstr("08P01"));
  EXPECT_TRUE(protocol_.closed());
}

TEST_F(HookProtocolTest, SetAndEmptyAndUnknownQueriesGoOn) {
  LogIn();
  EXPECT_EQ(Types(Send(Message('Q', "SET datestyle = ISO"))), "CZ");
  EXPECT_EQ(Types(Send(Message('Q', ""))), "IZ");
  EXPECT_EQ(Types(Send(Message('Q', "SELECT 1"))), "EZ");
  EXPECT_FALSE(protocol_.closed());
  Send(Message('X', ""));
  EXPECT_TRUE(protocol_.closed());
}

TEST_F(HookProtocolTest, RequestAndReply) {
  LogIn();
  EXPECT_EQ(Send(Outcome()), "");
  ASSERT_TRUE(protocol_.TakeRequest().has_value());
  EXPECT_FALSE(protocol_.TakeRequest().has_value());
  protocol_.ReplyText("outcome", "committed");
  EXPECT_EQ(Types(protocol_.TakeOutput()), "TDCZ");
  Send(Commit(1));
  protocol_.ReplyCommitted(42);
  EXPECT_EQ(protocol_.TakeOutput(),
            Message('C', "PSP 42 " + ProofsOfCommit(Chunks(1)).answer) + std::string("Z\0\0\0\5I", 6));
  Send(Outcome());
  protocol_.ReplyError({"40001", "conflict", "detail", "hint"});
  const std::string error = protocol_.TakeOutput();
  EXPECT_EQ(Types(error), "EZ");
  for (const char* part : {"C40001", "Mconflict", "Ddetail", "Hhint", "SERROR", "VERROR"})
    EXPECT_THAT(error, HasSubstr(part));
}

TEST_F(HookProtocolTest, DoubtsAreSettledBeforeTheTransactionIsSubmitted) {
  LogIn();
  EXPECT_THAT(Send(Commit(2)), HasSubstr("PSP DOUBTS"));
  EXPECT_FALSE(protocol_.TakeRequest().has_value());
  const std::string doubts = Send(Message('Q', std::string("doubts ") + kTx));
  EXPECT_EQ(Types(doubts), "TDCZ");
  EXPECT_THAT(doubts, HasSubstr(Proof("secret", std::string("doubts ") + kTx + " 7 61") + " 7 61"));
  EXPECT_EQ(Send(Rows("")), "");
  const auto request = protocol_.TakeRequest();
  ASSERT_TRUE(request.has_value());
  const auto& write_set = std::get<CommitRequest>(*request).assembled.write_set;
  ASSERT_EQ(write_set.rows_size(), 1);
  EXPECT_TRUE(write_set.rows(0).deleted());
}

TEST_F(HookProtocolTest, AnotherRequestDropsTheOneInDoubt) {
  LogIn();
  Send(Commit(2));
  Send(Message('Q', "ping"));
  EXPECT_THAT(Send(Rows("")), HasSubstr("08P01"));
  EXPECT_FALSE(protocol_.TakeRequest().has_value());
}

TEST_F(HookProtocolTest, ASegmentIsAnsweredWithItsDoubtsAndLeavesNothingBehind) {
  LogIn();
  for (const int times : {1, 2}) {
    const std::string chunks = Chunks(times);
    const std::string answer = Send(
        Message('Q', "segment " + Proof("secret", "segment " + Sha256(chunks)) + " " + EncodeHex(chunks)));
    const auto assembled = AssembleWriteSet(chunks);
    ASSERT_TRUE(assembled.ok());
    const std::string lines = DescribeDoubts(*assembled);
    EXPECT_EQ(lines.empty(), times == 1);
    EXPECT_EQ(Types(answer), "TDCZ");
    EXPECT_THAT(answer, HasSubstr(Proof("secret", "segment " + lines + " " + Sha256(chunks)) + " " + lines));
  }
  EXPECT_THAT(Send(Rows("")), HasSubstr("08P01"));
  EXPECT_FALSE(protocol_.TakeRequest().has_value());
}

TEST_F(HookProtocolTest, StatementsAreAnsweredWithAProofOfMessageAndAnswer) {
  LogIn();
  const std::string message = "BEGIN; CREATE TABLE t (i int)";
  const std::string lines = "transaction 0 5\nddl 7 22";
  const std::string answer = SendStatements(message);
  EXPECT_EQ(Types(answer), "TDCZ");
  EXPECT_THAT(answer,
              HasSubstr(Proof("secret", "statements 10 " + lines + " " + Sha256(message)) + " " + lines));
}

TEST_F(HookProtocolTest, AQuestionForANumberWaitsForItsReply) {
  LogIn();
  EXPECT_EQ(Send(Message('Q', "reach 12")), "");
  const auto request = protocol_.TakeRequest();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(std::get<HookReachRequest>(*request).global_t, 12);
}

TEST_F(HookProtocolTest, AHoldWaitsForItsReplyWhichIsProven) {
  LogIn();
  const std::string text = "700 5000 3";
  const std::string proof = Proof("secret", "hold " + Sha256(text));
  EXPECT_EQ(Send(Message('Q', "hold " + proof + " " + EncodeHex(text))), "");
  ASSERT_TRUE(protocol_.TakeRequest().has_value());
  protocol_.ReplyHeld(false);
  EXPECT_THAT(protocol_.TakeOutput(),
              HasSubstr(Proof("secret", "hold waiting " + Sha256(text)) + " waiting"));
  Send(Message('Q', "hold " + proof + " " + EncodeHex(text)));
  ASSERT_TRUE(protocol_.TakeRequest().has_value());
  protocol_.ReplyHeld(true);
  EXPECT_THAT(protocol_.TakeOutput(),
              HasSubstr(Proof("secret", "hold granted " + Sha256(text)) + " granted"));
}

TEST_F(HookProtocolTest, AMessageThatCannotBeSplitGetsAnErrorAndTheConnectionGoesOn) {
  LogIn();
  EXPECT_THAT(SendStatements("SELECT 'x"), HasSubstr("C42601"));
  EXPECT_EQ(Types(Send(Message('Q', "ping"))), "TDCZ");
}

TEST_F(HookProtocolTest, ALongRequestIsReadElsewhere) {
  const HookProtocol::Options options{"secret", "here", 1 << 20};
  HookProtocol protocol(options);
  const std::string message = "DROP TABLE t" + std::string(40'000, ' ');
  protocol.Feed(Startup(wire::kProtocol3) + Message('p', Password()) + Statements(message) +
                Message('Q', "ping"));
  EXPECT_EQ(Types(protocol.TakeOutput()), "RRSSSSSZ");
  const auto line = protocol.TakeLongRequest();
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(protocol.TakeLongRequest().has_value());
  protocol.OnRead(ParseRequest(*line, "secret", 1 << 20));
  const std::string answer = protocol.TakeOutput();
  EXPECT_EQ(Types(answer), "TDCZTDCZ");
  EXPECT_THAT(answer, HasSubstr(" ddl 0 12"));
}

TEST_F(HookProtocolTest, AnErrorOfALongRequestIsToldWhenItIsRead) {
  const HookProtocol::Options options{"secret", "here", 1 << 20};
  HookProtocol protocol(options);
  protocol.Feed(Startup(wire::kProtocol3) + Message('p', Password()) +
                Message('Q', std::string(70'000, 'x')));
  protocol.TakeOutput();
  const auto line = protocol.TakeLongRequest();
  ASSERT_TRUE(line.has_value());
  protocol.OnRead(ParseRequest(*line, "secret", 1 << 20));
  EXPECT_THAT(protocol.TakeOutput(), HasSubstr("0A000"));
  EXPECT_FALSE(protocol.closed());
}

TEST_F(HookProtocolTest, ReplyWithoutARequestIsIgnored) {
  LogIn();
  protocol_.ReplyError({"40001", "conflict", "", ""});
  EXPECT_EQ(protocol_.TakeOutput(), "");
}

TEST_F(HookProtocolTest, SendingMuchWhileWaitingEndsTheConnection) {
  LogIn();
  Send(Outcome());
  EXPECT_THAT(Send(std::string(70000, 'Q')), HasSubstr("08P01"));
  EXPECT_TRUE(protocol_.closed());
}

TEST_F(HookProtocolTest, TooLargeWriteSetIsReadToItsEndAndAnswered) {
  LogIn();
  const std::string message = Message('Q', "commit " + std::string(100000, '0'));
  std::string output;
  for (std::size_t at = 0; at < message.size(); at += 1000)
    output += Send(std::string_view(message).substr(at, 1000));
  EXPECT_EQ(Types(output), "EZ");
  EXPECT_THAT(output, HasSubstr("54000"));
  EXPECT_THAT(output, HasSubstr("write_set_bytes_max"));
  EXPECT_EQ(Types(Send(message + Message('Q', "ping"))), "EZTDCZ");
}

TEST_F(HookProtocolTest, ACopyOfTheDatabaseIsRefused) {
  const std::string login = Proof("secret", "login");
  for (const std::string& password : {login + "@there", login + "@", login}) {
    HookProtocol protocol(options_);
    protocol.Feed(Startup(wire::kProtocol3) + Message('p', password));
    EXPECT_TRUE(protocol.closed());
    EXPECT_THAT(protocol.TakeOutput(), HasSubstr("28000"));
  }
}

TEST_F(HookProtocolTest, MalformedMessagesEndTheConnection) {
  const std::string too_short_length("Q\0\0\0\3", 5);
  const std::string huge_parse("P\x7f\0\0\0", 5);
  const std::string not_terminated("Q\0\0\0\5x", 6);
  for (const std::string& bytes :
       {too_short_length, huge_parse, not_terminated, Message('P', "parse"),
        Message('Q', std::string("ping\0more", 9)), Message('Q', std::string("doubts ") + kTx), Rows("")}) {
    HookProtocol protocol(options_);
    protocol.Feed(Startup(wire::kProtocol3) + Message('p', Password()));
    protocol.TakeOutput();
    protocol.Feed(bytes);
    EXPECT_TRUE(protocol.closed());
    EXPECT_EQ(Types(protocol.TakeOutput()), "E");
    EXPECT_FALSE(protocol.problem().empty());
  }
}

// The connection goes on: who would find it closed could not tell whether anything was committed.
TEST_F(HookProtocolTest, AMalformedRequestIsAnError) {
  LogIn();
  for (const std::string& chunks : {std::string("no chunks"), std::string(70000, 'x')}) {
    const std::string head = std::string(kTx) + " 1 10 -";
    Send(Message('Q',
                 "commit " + head + " " + Proof("secret", head + Sha256(chunks)) + " " + EncodeHex(chunks)));
    if (const auto line = protocol_.TakeLongRequest())
      protocol_.OnRead(ParseRequest(*line, "secret", 1 << 20));
    EXPECT_FALSE(protocol_.TakeRequest().has_value());
    EXPECT_FALSE(protocol_.closed());
    EXPECT_THAT(protocol_.problem(), HasSubstr("psp: malformed request: the write-set"));
  }
  EXPECT_EQ(Types(Send(Message('Q', "ping"))), "TDCZ");
}

TEST_F(HookProtocolTest, TruncatedAtEveryByteIsOnlyIncomplete) {
  const std::string all = Startup(wire::kProtocol3) + Message('p', Password()) + Outcome();
  for (std::size_t size = 0; size < all.size(); ++size) {
    HookProtocol protocol(options_);
    protocol.Feed(std::string_view(all).substr(0, size));
    EXPECT_FALSE(protocol.closed());
    EXPECT_FALSE(protocol.TakeRequest().has_value());
  }
}

class TlsProtocolTest : public ::testing::Test {
 protected:
  const HookProtocol::Options options_{"secret", "here", 1 << 20, true};
  HookProtocol protocol_{options_};
};

TEST_F(TlsProtocolTest, TlsBeginsBehindTheAnswer) {
  protocol_.Feed(Startup(wire::kGssEncRequest));
  EXPECT_EQ(protocol_.TakeOutput(), "N");
  EXPECT_FALSE(protocol_.TakeTlsBegin());
  protocol_.Feed(Startup(wire::kSslRequest));
  EXPECT_EQ(protocol_.TakeOutput(), "S");
  EXPECT_TRUE(protocol_.TakeTlsBegin());
  EXPECT_FALSE(protocol_.TakeTlsBegin());
  protocol_.Feed(Startup(wire::kProtocol3, std::string("user\0psp\0", 10)));
  EXPECT_EQ(Types(protocol_.TakeOutput()), "R");
}

TEST_F(TlsProtocolTest, ThePasswordIsNotAskedForWithoutTls) {
  protocol_.Feed(Startup(wire::kProtocol3, std::string("user\0psp\0", 10)));
  EXPECT_THAT(protocol_.TakeOutput(), HasSubstr("takes connections with TLS only"));
  EXPECT_TRUE(protocol_.closed());
  EXPECT_FALSE(protocol_.TakeTlsBegin());
}

TEST_F(TlsProtocolTest, NothingMayBeSlippedInBeforeTls) {
  protocol_.Feed(Startup(wire::kSslRequest) + Startup(wire::kProtocol3, std::string("user\0psp\0", 10)));
  EXPECT_THAT(protocol_.TakeOutput(), HasSubstr("more bytes behind the request for TLS"));
  EXPECT_TRUE(protocol_.closed());
  EXPECT_FALSE(protocol_.TakeTlsBegin());
}

}  // namespace
}  // namespace psp::sp
