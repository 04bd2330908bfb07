#include "base/err.h"
#include "base/sha256.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines of JSON whose strings may hold NUL ---- */

static size_t put_utf8(char *out, unsigned c) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[n] | c);
    return n;
}

static unsigned hex4(const char *s) {
    char digits[5] = {s[0], s[1], s[2], s[3], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* The string behind "key": in a line, unescaped in place. */
static char *string_field(char *line, const char *key, size_t *n) {
    const char *name = test_text("\"%s\":", key);
    char *in = strstr(line, name);
    if (!in) return NULL;
    in = strchr(in + strlen(name), '"') + 1;
    char *start = in, *out = in;
    for (; *in != '"'; in++) {
        if (*in != '\\') {
            *out++ = *in;
        } else if (*++in == 'u') {
            unsigned c = hex4(in + 1);
            in += 4;
            if (c >= 0xD800 && c < 0xDC00) {
                c = 0x10000 + ((c - 0xD800) << 10) + hex4(in + 3) - 0xDC00;
                in += 6;
            }
            out += put_utf8(out, c);
        } else {
            static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
            const char *at = strchr(from, *in);
            *out++ = at ? to[at - from] : *in;
        }
    }
    *n = (size_t)(out - start);
    return start;
}

static TokenList ids_field(const char *line) {
    TokenList ids = {0};
    const char *at = strchr(strstr(line, "\"ids\":"), '[') + 1;
    while (*at != ']') {
        char *end;
        token_list_push(&ids, (int)strtol(at, &end, 10));
        at = end + strspn(end, ", ");
    }
    return ids;
}

static Tokenizer *gpt2(void) {
    const char *path = test_shared("tokenizer/tokenizer.json");
    Tokenizer *t = NULL;
    Err err = {""};
    if (path && tokenizer_json_load(&t, path, &err)) test_fail(__FILE__, __LINE__, "%s", err.msg);
    return t;
}

static void check_line(const Tokenizer *t, char *line, const char *file, int number) {
    TokenList want = ids_field(line);
    size_t n = 0;
    const char *text = string_field(line, "text", &n);
    TokenList got = encode_text(t, text, n, false);
    CHECK_MSG(same_ids(&got, want.ids, want.n), "%s line %d: %zu ids, want %zu", file, number, got.n, want.n);
    check_round_trip(t, text, n);
    token_list_free(&want);
    token_list_free(&got);
}

static void check_vectors(const char *file, int lines) {
    const char *path = test_shared(file);
    char *all = path ? test_read_file(path, NULL) : NULL, *save = NULL;
    Tokenizer *t = gpt2();
    int n = 0;
    if (all && t) {
        for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            check_line(t, line, file, ++n);
        CHECK_MSG(n == lines, "%s has %d lines, want %d", file, n, lines);
    } else {
        test_skip("no ../shared/data");
    }
    tokenizer_free(t);
    free(all);
}

TEST(tokenizer_llamacpp_vectors) { check_vectors("tokenizer/llamacpp_vectors.jsonl", 47); }

TEST(tokenizer_hf_vectors) { check_vectors("tokenizer/hf_vectors.jsonl", 26); }

/* ---- whole files ---- */

static void ids_hash(const TokenList *list, char hex[65]) {
    Sha256 s;
    sha256_init(&s);
    for (size_t i = 0; i < list->n; i++) {
        unsigned char two[2] = {(unsigned char)list->ids[i], (unsigned char)(list->ids[i] >> 8)};
        sha256_add(&s, two, 2);
    }
    sha256_hex(&s, hex);
}

static void check_file(const Tokenizer *t, const char *path, const char *want, size_t n_want) {
    size_t n = 0;
    char *text = test_read_file(path, &n), hex[65];
    double start = test_cpu_seconds();
    TokenList list = encode_text(t, text, n, false);
    double seconds = test_cpu_seconds() - start;
    ids_hash(&list, hex);
    CHECK_MSG(list.n == n_want && strcmp(hex, want) == 0, "%s: %zu ids %s, want %zu %s", path, list.n, hex, n_want,
              want);
    CHECK_MSG(seconds < 10 * SLOWNESS, "%s: %zu bytes took %.1f s", path, n, seconds);
    token_list_free(&list);
    free(text);
}

TEST(tokenizer_whole_files) {
    static const char *const files[][2] = {{"tinyshakespeare/input.txt", "text/tinyshakespeare.txt"},
                                           {"debian_default/kjv.txt", "text/kjv.txt"},
                                           {"debian_default/mobydick.txt", "text/mobydick.txt"},
                                           {"debian_default/sherlock.txt", "text/sherlock.txt"},
                                           {"wikitext2/valid.txt", "text/wikitext2.valid.txt"},
                                           {"wikitext2/test.txt", "text/wikitext2.test.txt"},
                                           {"tinystories/tinystories_2M.txt", "text/tinystories_2M.txt"}};
    const char *path = test_shared("tokenizer/whole_file_token_hashes.jsonl");
    char *all = path ? test_read_file(path, NULL) : NULL, *save = NULL;
    Tokenizer *t = gpt2();
    int done = 0;
    for (char *line = all && t ? strtok_r(all, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        size_t n_want = strtoul(strstr(line, "\"tokens\":") + strlen("\"tokens\":"), NULL, 10), n, n_hash;
        char *hash = string_field(line, "sha256_u16le", &n_hash), *name = string_field(line, "file", &n);
        for (size_t i = 0; i < COUNTOF(files); i++) {
            const char *file = strncmp(name, files[i][0], strlen(files[i][0])) == 0 ? test_shared(files[i][1]) : NULL;
            if (!file) continue;
            hash[n_hash] = 0;
            check_file(t, file, hash, n_want);
            done++;
        }
    }
    if (all && t)
        CHECK_MSG(done == COUNTOF(files), "%d of %zu files compared", done, COUNTOF(files));
    else
        test_skip("no ../shared/data");
    tokenizer_free(t);
    free(all);
}

TEST(tokenizer_gpt2_saves_what_it_loads) {
    Tokenizer *a = gpt2(), *b = NULL, *c = NULL;
    if (!a) SKIP("no ../shared/data");
    const char *dir = test_dir();
    char first[300], second[300];
    size_t n = 0, m = 0;
    snprintf(first, sizeof first, "%s/1.json", dir);
    snprintf(second, sizeof second, "%s/2.json", dir);
    CHECK(tokenizer_json_save(a, first, NULL) == 0 && tokenizer_json_load(&b, first, NULL) == 0);
    CHECK(b && tokenizer_json_save(b, second, NULL) == 0 && tokenizer_json_load(&c, second, NULL) == 0);
    char *x = test_read_file(first, &n), *y = test_read_file(second, &m);
    CHECK(x && y && n == m && memcmp(x, y, n) == 0);
    CHECK(c && tokenizer_vocab_size(c) == 50257 && tokenizer_find_special(c, "<|endoftext|>") == 50256);
    free(x);
    free(y);
    tokenizer_free(a);
    tokenizer_free(b);
    tokenizer_free(c);
}

/* ---- published tokenizers ---- */

/* With special tokens found in the text, as the other library does. NFC texts do not come back byte for byte. */
static int count_differences(const Tokenizer *t, char *all) {
    char *save = NULL;
    int wrong = 0, number = 0;
    for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        TokenList want = ids_field(line);
        size_t n = 0;
        number++;
        const char *text = string_field(line, "text", &n);
        TokenList got = encode_text(t, text, n, true);
        bool same = same_ids(&got, want.ids, want.n);
        CHECK_MSG(same, "line %d, \"%.*s\": %zu ids, want %zu", number, (int)n, text, got.n, want.n);
        wrong += !same;
        token_list_free(&want);
        token_list_free(&got);
    }
    CHECK(number > 0);
    return wrong;
}

/* PUBLISHED is the folder that published/vectors.mjs wrote: `make check-tokenizers`. */
TEST(tokenizer_published) {
    static const char *const names[] = {"tokenizer-llama3", "tokenizer-qwen2_5", "tokenizer-qwen3",
                                        "tokenizer-mistral_nemo", "tokenizer-deepseek_v3"};
    const char *folder = getenv("PUBLISHED");
    if (!folder) SKIP("no PUBLISHED folder of tokenizers (make check-tokenizers)");
    for (size_t i = 0; i < COUNTOF(names); i++) {
        char path[512];
        Tokenizer *t = NULL;
        Err err = {""};
        snprintf(path, sizeof path, "%s/%s/tokenizer.json", folder, names[i]);
        CHECK_MSG(tokenizer_json_load(&t, path, &err) == 0, "%s", err.msg);
        snprintf(path, sizeof path, "%s/%s/vectors.jsonl", folder, names[i]);
        char *all = test_read_file(path, NULL);
        CHECK_MSG(all, "%s cannot be read", path);
        if (t && all) printf("%s: %d differences\n", names[i], count_differences(t, all));
        free(all);
        tokenizer_free(t);
    }
}
