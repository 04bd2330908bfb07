/* Folders in several files, and what tells one set of weights from another. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/scrub.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ONE "model-00001-of-00002.safetensors"
#define TWO "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"

/* ---- the digest ---- */

static void flip_last_byte(const char *dir, const char *name) {
    size_t n;
    const char *path = test_text("%s/%s", dir, name);
    char *file = test_read_file(path, &n);
    file[n - 1] ^= 1;
    test_write_file(path, file, n);
    free(file);
}

static void hash_of(const char *dir, char hash[65]) {
    Checkpoint c;
    Err err;
    strcpy(hash, "");
    int rc = checkpoint_open(&c, dir, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    if (rc) return;
    strcpy(hash, c.hash);
    checkpoint_close(&c);
}

TEST(shards_digest_names_both_values) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    char out[4096], good[65], bad[65];
    Checkpoint c;
    test_checkpoint_save(dir, &cfg, DTYPE_BF16);
    REQUIRE(checkpoint_open(&c, dir, NULL) == 0);
    strcpy(good, c.shards.files[0].metadata_sha256);
    size_t header = safe_header_bytes(&c.shards.files[0]), n;
    checkpoint_close(&c);
    flip_last_byte(dir, "model.safetensors");
    char *file = test_read_file(test_text("%s/model.safetensors", dir), &n);
    Sha256 s;
    sha256_init(&s);
    sha256_add(&s, file + header, n - header);
    sha256_hex(&s, bad);
    free(file);
    CHECK_MSG(
        test_run_tool(test_text("verify %s", dir), out) == 1 &&
            !strcmp(
                out,
                test_text(
                    "noised-weights: verify: %s/model.safetensors: the data has sha256 %s, but its header says %s\n",
                    dir, bad, good)),
        "%s", out);
}

/* A file without a digest is hashed whole: every byte counts. */
TEST(shards_foreign_files_are_hashed_whole) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    char hashes[4][65];
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    hash_of(dir, hashes[0]);
    test_strip_metadata(dir, "model.safetensors");
    hash_of(dir, hashes[1]);
    flip_last_byte(dir, "model.safetensors");
    hash_of(dir, hashes[2]);
    flip_last_byte(dir, "model.safetensors");
    hash_of(dir, hashes[3]);
    CHECK(strcmp(hashes[0], hashes[1]) && strcmp(hashes[1], hashes[2]) && !strcmp(hashes[1], hashes[3]));
}

/* ---- several files ---- */

/* An index that says where out[0..split) and the rest are, less the last `cut` entries, plus `more`. */
static void write_index(const Edit *e, int split, int cut, const char *more, const char *dir) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fprintf(f, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (int i = 0; i < e->n - cut; i++)
        fprintf(f, "%s\"%s\":\"%s\"", i ? "," : "", e->out[i].name, i < split ? ONE : TWO);
    fprintf(f, "%s}}", more);
    fclose(f);
    test_write_text(dir, INDEX, text);
    free(text);
}

/* The weights of `dir` in two files of `to`. */
static void save_in_two(const char *dir, const char *to) {
    Edit e;
    edit_open(&e, dir);
    edit_save_part(&e, 0, 20, to, ONE);
    edit_save_part(&e, 20, e.n - 20, to, TWO);
    write_index(&e, 20, 0, "", to);
    safe_close(&e.file);
}

TEST(shards_good) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    char out[4096];
    Checkpoint a, b;
    Err err;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    save_in_two(dir, to);
    REQUIRE(checkpoint_open(&a, dir, NULL) == 0);
    int rc = checkpoint_open(&b, to, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    REQUIRE(rc == 0 && b.shards.n_files == 2 && b.shards.n == a.shards.n);
    for (int i = 0; i < a.model.params.n; i++) {
        const Weight *x = a.model.params.params[i].weight, *y = b.model.params.params[i].weight;
        CHECK(!memcmp(x->data, y->data, weight_count(x) * sizeof(float)));
    }
    checkpoint_close(&a);
    checkpoint_close(&b);
    CHECK_MSG(test_run_tool(test_text("verify %s", to), out) == 0 && !strncmp(out, "ok ", 3), "%s", out);
    flip_last_byte(to, TWO);
    test_checkpoint_open(to, TWO ": the data has sha256 ", "a flipped bit");
    test_write_file(test_text("%s/model.safetensors", to), "", 0);
    test_checkpoint_open(to, "both model.safetensors and model.safetensors.index.json are there", "both forms");
}

static const float zeros[300 * 64];

TEST(shards_bad_files) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    Edit e;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    edit_open(&e, dir);
    const char *last = test_text("%s", e.out[e.n - 1].name);
    const char *twentieth = e.out[20].name;
    edit_save_part(&e, 0, 20, to, ONE);
    write_index(&e, 20, 0, "", to);
    test_checkpoint_open(to, TWO ": No such file", "a shard is missing");
    edit_save_part(&e, 20, e.n - 21, to, TWO);
    test_checkpoint_open(to, test_text(INDEX ": weight_map: %s is not in " TWO, last), "a tensor is nowhere");
    edit_save_part(&e, 20, e.n - 20, to, TWO);
    test_checkpoint_open(to, NULL, "good");
    write_index(&e, 20, 1, "", to);
    test_checkpoint_open(to, test_text(INDEX ": weight_map: %s of " TWO " is missing", last), "a tensor is not listed");
    write_index(&e, 21, 0, "", to);
    test_checkpoint_open(to, test_text(INDEX ": weight_map: %s is in " TWO ", not in " ONE, twentieth),
                         "a tensor is elsewhere");
    write_index(&e, 20, 0, ",\"zzz\":\"" ONE "\"", to);
    test_checkpoint_open(to, "weight_map: zzz is not in " ONE, "an invented tensor");
    write_index(&e, 20, 0, "", to);
    edit_save_part(&e, 0, 21, to, ONE);
    test_checkpoint_open(to, test_text(INDEX ": %s is there twice: in " ONE " and in " TWO, twentieth),
                         "a tensor in both");
    edit_add(&e, (SafeOut){.name = "zzz", .n_dims = 1, .dims = {3}, .data = zeros});
    edit_save_part(&e, 0, 20, to, ONE);
    edit_save_part(&e, 20, e.n - 20, to, TWO);
    write_index(&e, 20, 0, "", to);
    test_checkpoint_open(to, "1 unknown tensor, first zzz", "a tensor too many");
    test_write_file(test_text("%s/%s", to, ONE), "", 0);
    test_checkpoint_open(to, ONE ": 0 bytes are no safetensors file", "an empty shard");
    safe_close(&e.file);
}

TEST(shards_bad_index) {
    static const struct {
        const char *index, *why;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", INDEX ": weight_map is missing"},
        {"{}", INDEX ": weight_map is missing"},
        {"{\"weight_map\":[]}", "weight_map is missing"},
        {"{\"weight_map\":{}}", "weight_map names 0 files, must be 1 to 256"},
        {"{\"weight_map\":{\"a\":1}}", "weight_map: the file of a is no string"},
        {"{\"weight_map\":{\"a\":\"\"}}", "weight_map: a is in \"\", which is no plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "weight_map: a is in \"..\", which is no plain file name"},
        {"{\"weight_map\":{\"a\":\"../b\"}}", "weight_map: a is in \"../b\", which is no plain file name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "is in \"/etc/passwd\", which is no plain file name"},
        {"{\"weight_map\":{\"a\":\"b\\n\"}}", "which is no plain file name"},
        {"{\"weight_map\":{\"a\":\"b\",\"a\":\"c\"}}", "\"a\" occurs twice"},
        {"{\"weight_map\":{\"a\":\"b.safetensors\"}}", "b.safetensors: No such file"},
        {"{\"weight_map\":{\"a\":\"config.json\"}}", "config.json: a header of"},
    };
    Config cfg = test_checkpoint_config();
    const char *dir = test_config_folder(&cfg);
    char *text = NULL;
    size_t n;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        test_write_text(dir, INDEX, cases[i].index);
        test_checkpoint_open(dir, cases[i].why, cases[i].index);
    }
    FILE *f = open_memstream(&text, &n);
    fprintf(f, "{\"weight_map\":{\"a\":\"0\"");
    for (int i = 1; i <= SHARDS_MAX; i++) fprintf(f, ",\"%d\":\"%d\"", i, i);
    fprintf(f, "}}");
    fclose(f);
    test_write_text(dir, INDEX, text);
    test_checkpoint_open(dir, "weight_map names 257 files, must be 1 to 256", "many files");
    free(text);
}

/* ---- read again while they are served ---- */

/* Memory that forgets: no time of the file moves, and the file itself is what it was. */
static void forget(const SafeFile *f) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), last = (f->map_bytes - 1) / page * page;
    char *at = (char *)f->map;
    BUG_ON(mprotect(at + last, f->map_bytes - last, PROT_READ | PROT_WRITE));
    at[f->map_bytes - 1] ^= 1;
}

TEST(scrub_goes_round_all_files) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    Shards s;
    Scrub *scrub;
    Err err;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    save_in_two(dir, to);
    REQUIRE(shards_open(&s, to, false, &err) == 0 && s.n_files == 2);
    forget(&s.files[1]);
    CHECK(shards_intact(&s));
    REQUIRE(scrub_start(&scrub, &s, 0.01, &err) == 0);
    for (int i = 0; i < 100 * PATIENCE && safe_intact(&s.files[1]); i++) usleep(10000);
    CHECK(safe_intact(&s.files[0]) && !safe_intact(&s.files[1]));
    CHECK_MSG(shards_check_intact(&s, &err) && strstr(err.msg, TWO), "%s", err.msg);
    scrub_stop(scrub);
    shards_close(&s);
}

/* Evenly over the period: of a long one nothing is read yet. */
TEST(scrub_bides_its_time) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    Shards s;
    Scrub *scrub;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    REQUIRE(shards_open(&s, dir, false, NULL) == 0);
    forget(&s.files[0]);
    REQUIRE(scrub_start(&scrub, &s, 1e6, NULL) == 0);
    usleep(300000);
    CHECK(shards_intact(&s));
    scrub_stop(scrub);
    shards_close(&s);
}
