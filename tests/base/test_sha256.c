#include "base/sha256.h"

#include "weights/hash_thread.h"
#include "tests/support/test.h"

#include <string.h>

TEST(sha256_known_answers) {
    static const struct {
        const char *text;
        int times;
        const char *hex;
    } cases[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Sha256 s;
        char hex[65];
        sha256_init(&s);
        for (int k = 0; k < cases[i].times; k++) sha256_add(&s, cases[i].text, strlen(cases[i].text));
        sha256_hex(&s, hex);
        CHECK_MSG(!strcmp(hex, cases[i].hex), "%s", hex);
    }
}

/* A look at the digest so far changes nothing. */
TEST(sha256_peek) {
    static const unsigned char abc[4] = {0xba, 0x78, 0x16, 0xbf}, abca[4] = {0x5c, 0x3f, 0x67, 0xb7};
    unsigned char digest[SHA256_BYTES];
    Sha256 s;
    sha256_init(&s);
    sha256_add(&s, "abc", 3);
    sha256_peek(&s, digest);
    CHECK(!memcmp(digest, abc, sizeof abc));
    sha256_add(&s, "a", 1);
    sha256_peek(&s, digest);
    CHECK(!memcmp(digest, abca, sizeof abca));
}

TEST(hash_thread) {
    static char data[1 << 16];
    char want[SHA256_HEX], hex[SHA256_HEX];
    HashThread h;
    Sha256 s;
    sha256_init(&s);
    REQUIRE(hash_thread_start(&h, NULL) == 0);
    for (int i = 0; i < 200; i++) { /* one buffer: overwritten as soon as that is allowed */
        memset(data, i, sizeof data);
        sha256_add(&s, data, sizeof data - (size_t)i);
        hash_thread_add(&h, data, sizeof data - (size_t)i);
        hash_thread_wait(&h);
    }
    sha256_hex(&s, want);
    hash_thread_end(&h, hex);
    CHECK_MSG(!strcmp(hex, want), "%s, not %s", hex, want);
    REQUIRE(hash_thread_start(&h, NULL) == 0);
    hash_thread_end(&h, hex);
    CHECK(!strncmp(hex, "e3b0c442", 8));
}
