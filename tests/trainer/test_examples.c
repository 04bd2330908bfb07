/* Labelled data: what the readers make of good files, and what they say about bad ones. */
#include "base/memory.h"
#include "tests/support/test.h"
#include "trainer/tasks/examples_load.h"

#include <stdlib.h>
#include <string.h>

/* A file of the name in a fresh folder; the path is the caller's. */
static char *put(const char *name, const void *data, size_t n) {
    const char *dir = test_dir();
    const char *path = test_text("%s/%s", dir, name);
    test_write_file(path, data, n);
    return xstrdup(path);
}

static bool load_text(Examples *e, const char *name, const char *text, ExamplesFormat format, const Labels *known) {
    char *path = put(name, text, strlen(text));
    Err err;
    bool good = examples_load(e, path, format, known, &err) == 0;
    CHECK_MSG(good, "%s", err.msg);
    free(path); /* e->path dangles: nobody asks for a place here */
    return good;
}

/* Loading must fail with a message that ends in `why`. */
static void refuse_bytes(const char *name, const void *data, size_t n, ExamplesFormat format, const Labels *known,
                         const char *why) {
    char *path = put(name, data, n);
    Examples e;
    Err err = {""};
    CHECK_MSG(examples_load(&e, path, format, known, &err), "%s was read; wanted: %s", name, why);
    CHECK_MSG(strstr(err.msg, why) && strstr(err.msg, name), "\"%s\" lacks \"%s\"", err.msg, why);
    free(path);
}

static void refuse(const char *name, const char *text, ExamplesFormat format, const Labels *known, const char *why) {
    refuse_bytes(name, text, strlen(text), format, known, why);
}

static void check_unit(const Examples *e, int i, const char *text, const char *second, const char *label, int line) {
    bool same = i < e->n_units && !strcmp(e->text[i], text) && !strcmp(labels_name(&e->labels, e->label[i]), label) &&
                !e->second[i] == !second && (!second || !strcmp(e->second[i], second)) && e->line[i] == line;
    CHECK_MSG(same, "unit %d is not \"%s\", \"%s\", %s in line %d", i, text, second ? second : "", label, line);
}

TEST(examples_read_json_lines) {
    Examples e;
    static const char text[] = "{\"text\": \"a \\u00e9\\n\\\"b\\\"\", \"label\": \"POS\"}\r\n"
                               "{\"label\": 12, \"text_b\": \"d\", \"text\": \"c\"}\n\r\n"
                               "{\"sentence1\": \"e\", \"sentence2\": null, \"label\": \"NEG\", \"idx\": 7}\n \t\n";
    REQUIRE(load_text(&e, "x.jsonl", text, FORMAT_AUTO, NULL));
    CHECK(e.kind == EXAMPLES_TEXTS && e.n == 3 && e.n_units == 3 && e.first[0] == 0 && e.first[3] == 3);
    check_unit(&e, 0, "a \u00e9\n\"b\"", NULL, "POS", 1);
    check_unit(&e, 1, "c", "d", "12", 2);
    check_unit(&e, 2, "e", NULL, "NEG", 4);
    CHECK(e.labels.n == 3 && !strcmp(labels_name(&e.labels, 0), "12") && !strcmp(labels_name(&e.labels, 2), "POS"));
    examples_free(&e);
}

TEST(examples_read_columns) {
    Examples e;
    REQUIRE(load_text(&e, "x.tsv", "\xEF\xBB\xBFindex\tsentence1\tsentence2\tlabel\n0\ta \"b\tc\tyes\n1\td\te\tno\n",
                      FORMAT_AUTO, NULL));
    CHECK(e.n == 2 && e.labels.n == 2);
    check_unit(&e, 0, "a \"b", "c", "yes", 2);
    check_unit(&e, 1, "d", "e", "no", 3);
    examples_free(&e);
    REQUIRE(load_text(&e, "CoLA.tsv", "gj04\t1\t\tA b.\ncj99\t0\t*\tB a.\n", FORMAT_COLA, NULL));
    check_unit(&e, 0, "A b.", NULL, "1", 1);
    check_unit(&e, 1, "B a.", NULL, "0", 2);
    examples_free(&e);
    REQUIRE(load_text(&e, "TREC.txt", "HUM:ind Who ?\nNUM:dist How far : 3 ?\n1 fine\n", FORMAT_TREC, NULL));
    check_unit(&e, 0, "Who ?", NULL, "HUM", 1);
    check_unit(&e, 1, "How far : 3 ?", NULL, "NUM", 2);
    check_unit(&e, 2, "fine", NULL, "1", 3);
    examples_free(&e);
}

/* The layouts of gluebenchmark.com's files. */
TEST(examples_read_glue_files) {
    Examples e;
    REQUIRE(load_text(&e, "train.tsv",
                      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                      "133273\t213221\t213222\tHow is \"life\"?\tWhat's life?\t0\n"
                      "402555\t536040\t536041\tHow do I?\tHow can I?\t1\n",
                      FORMAT_AUTO, NULL));
    check_unit(&e, 0, "How is \"life\"?", "What's life?", "0", 2);
    check_unit(&e, 1, "How do I?", "How can I?", "1", 3);
    examples_free(&e);
    REQUIRE(load_text(&e, "dev.tsv",
                      "index\tquestion\tsentence\tlabel\n0\tWhat came?\tIt came on Sunday.\tentailment\n"
                      "1\tWho?\tNobody.\tnot_entailment\n",
                      FORMAT_AUTO, NULL));
    check_unit(&e, 0, "What came?", "It came on Sunday.", "entailment", 2);
    check_unit(&e, 1, "Who?", "Nobody.", "not_entailment", 3);
    examples_free(&e);
    static const char parses[] = "\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse";
    REQUIRE(load_text(
        &e, "train.tsv",
        test_text("index\tpromptID\tpairID\tgenre%s\tsentence1\tsentence2\tlabel1\tgold_label\n"
                  "0\t31193\t31193n\tgovernment\t( a b )\t( c d )\t(ROOT a)\t(ROOT c)\tA b.\tC d.\tneutral\tneutral\n",
                  parses),
        FORMAT_AUTO, NULL));
    check_unit(&e, 0, "A b.", "C d.", "neutral", 2);
    examples_free(&e);
    REQUIRE(load_text(
        &e, "dev_matched.tsv",
        test_text("index\tpromptID\tpairID\tgenre%s\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5"
                  "\tgold_label\n0\t63735\t63735n\tslate\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tA.\tB.\tneutral\tneutral"
                  "\tneutral\tentailment\tneutral\tcontradiction\n",
                  parses),
        FORMAT_AUTO, NULL));
    check_unit(&e, 0, "A.", "B.", "contradiction", 2);
    examples_free(&e);
    REQUIRE(load_text(&e, "train.tsv",
                      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
                      "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane.\tAn air plane.\t5.000\n"
                      "1\tmain-captions\tMSRvid\t2012test\t0004\tnone\tnone\tA man.\tA flute.\t2.500\n"
                      "2\tmain-news\tx\t2013\t0005\tnone\tnone\tC.\tD.\t0.25\n",
                      FORMAT_AUTO, NULL));
    check_unit(&e, 0, "A plane.", "An air plane.", "5", 2);
    check_unit(&e, 1, "A man.", "A flute.", "3", 3);
    check_unit(&e, 2, "C.", "D.", "0", 4);
    examples_free(&e);
}

TEST(examples_read_sentences) {
    Examples e;
    static const char text[] = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter  NNP B-PER \n \n";
    REQUIRE(load_text(&e, "x.conll", text, FORMAT_AUTO, NULL));
    CHECK(e.kind == EXAMPLES_SENTENCES && e.n == 2 && e.n_units == 3 && e.first[1] == 2 && e.first[2] == 3);
    check_unit(&e, 0, "EU", NULL, "B-ORG", 3);
    check_unit(&e, 2, "Peter", NULL, "B-PER", 7);
    examples_free(&e);
    REQUIRE(load_text(&e, "x.conll", "a b\tO\nc\tB-x\n\t\nd\tO\n\xEF\xBB\xBF", FORMAT_AUTO,
                      NULL)); /* tabs: spaces are the word's */
    CHECK(e.n == 2 && e.n_units == 3);
    check_unit(&e, 0, "a b", NULL, "O", 1);
    examples_free(&e);
}

TEST(examples_keep_labels_in_order) {
    Examples e;
    Labels known = {0};
    Err err;
    REQUIRE(load_text(&e, "x.txt", "10 a\n9 b\n-1 c\n", FORMAT_TREC, NULL));
    CHECK(e.label[0] == 2 && e.label[1] == 1 && e.label[2] == 0); /* numbers in their order, not 10 before 9 */
    examples_free(&e);
    CHECK(labels_add(&known, "b", &err) == 0 && labels_add(&known, "a", &err) == 1);
    REQUIRE(
        load_text(&e, "x.txt", "a x\na y\n", FORMAT_TREC, &known)); /* the given order, and those that are not met */
    CHECK(e.labels.n == 2 && e.label[0] == 1 && e.label[1] == 1);
    examples_free(&e);
    refuse("y.txt", "a x\nc y\n", FORMAT_TREC, &known, "y.txt:2: unknown label \"c\"; there are b, a");
}

TEST(examples_refuse_bad_lines) {
    static const struct {
        const char *name, *text;
        ExamplesFormat format;
        const char *why;
    } cases[] = {
        {"a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"\",\"label\":\"x\"}", 0,
         "a.jsonl:2: the text is empty"},
        {"a.jsonl", "{\"text\":\" \\t\",\"label\":\"x\"}", 0, ":1: the text is empty"},
        {"a.jsonl", "{\"text\":\"a\",\"text_b\":\"\",\"label\":\"x\"}", 0, ":1: the second text is empty"},
        {"a.jsonl", "{\"text\":\"a\"}", 0, ":1: \"label\" is missing"},
        {"a.jsonl", "{\"label\":\"a\"}", 0, ":1: \"text\" is missing"},
        {"a.jsonl", "{\"text\":\"a\",\"label\":\"\"}", 0, ":1: the label is empty"},
        {"a.jsonl", "{\"text\":\"a\",\"label\":null}", 0, "\"label\" is null, must be a string or a small integer"},
        {"a.jsonl", "{\"label\":1e15}", 0, "must be a string or a small integer"},
        {"a.jsonl", "{\"text\":3,\"label\":1}", 0, "\"text\" is 3, must be a string"},
        {"a.jsonl", "{\"text\":\"a\",\"sentence\":\"b\",\"label\":1}", 0, "\"sentence\" is a second text"},
        {"a.jsonl", "{\"text\":\"a\",\"lable\":1}", 0, ":1: unknown key \"lable\""},
        {"a.jsonl", "{\"text\":\"a\",\"label\":1}\n\n{}", 0, "a.jsonl:3:"},
        {"a.jsonl", "[1]", 0, ":1: not an object"},
        {"a.jsonl", "{\"text\":\"a\",\"label\":1", 0, "a.jsonl:1:"},
        {"a.jsonl", "", 0, "there are no examples in it"},
        {"a.jsonl", "{\"text\":\"a\",\"label\":1}\n\xFF", 0, "a.jsonl:2: bytes that are no UTF-8"},
        {"a.tsv", "text\tlabel\na\tb\tc\n", 0, "a.tsv:2: 3 columns, the header has 2"},
        {"a.tsv", "text\tlabel\na\n", 0, "a.tsv:2: 1 columns, the header has 2"},
        {"a.tsv", "gj04\t1\t\tA b.\n", 0, "(CoLA's files have no header: --format cola)"},
        {"a.tsv", "score\tscore\tsentence1\n", 0, "column \"score\" is a second score"},
        {"a.tsv", "text\tindex\n", 0, "a.tsv:1: the header has no column \"label\""},
        {"a.tsv", "label\tindex\n", 0, "a.tsv:1: the header has no column \"text\""},
        {"a.tsv", "text\tsentence\tlabel\n", 0, "\"sentence\" is a second text"},
        {"a.tsv", "question\tsentence\ttext_b\tlabel\n", 0, "column \"text_b\" is a second text_b"},
        {"a.tsv", "question\ttext\tlabel\n", 0, "column \"text\" is a second text"},
        {"a.tsv", "text\tscore\na\t5.1\n", 0, "a.tsv:2: score is \"5.1\", must be 0 to 5"},
        {"a.tsv", "text\tscore\na\tgood\n", 0, "a.tsv:2: score is \"good\", must be 0 to 5"},
        {"a.tsv", "text\tscore\tlabel\n", 0, "column \"score\" is a second label"},
        {"a.jsonl", "{\"text\":\"a\",\"score\":1}", 0, ":1: unknown key \"score\""},
        {"a.tsv", "text\tlabel\n", 0, "there are no examples"},
        {"a.tsv", "text\tlabel\na\t\n", 0, "a.tsv:2: the label is empty"},
        {"a.tsv", "a\t1\tb\n", FORMAT_COLA, ":1: 3 columns, CoLA's files have 4"},
        {"a.txt", "a\n", FORMAT_TREC, "a.txt:1: no space between a label and a text"},
        {"a.txt", "a:b \n", FORMAT_TREC, "a.txt:1: the text is empty"},
        {"a.txt", ":b a\n", FORMAT_TREC, "a.txt:1: the label is empty"},
        {"a.txt", "a b\n", 0, "the name does not tell its format"},
        {"a.conll", "a O\nb\n", 0, "a.conll:2: one column"},
        {"a.conll", "a x O\nb O\n", 0, "a.conll:2: 2 columns, the first word has 3"},
        {"a.conll", "a\tO\nb\t\n", 0, "a.conll:2: the label is empty"},
        {"a.conll", "\n\n", 0, "there are no examples"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++)
        refuse(cases[i].name, cases[i].text, cases[i].format, NULL, cases[i].why);
    refuse_bytes("a.jsonl", "{\"text\":\"a\",\"label\":1}\n\0", 25, FORMAT_AUTO, NULL, "a.jsonl:2: a zero byte");
    refuse_bytes("a.gz", "\x1F\x8B\x08\0", 4, FORMAT_AUTO, NULL, "it is compressed");
    Examples e;
    Err err;
    CHECK(examples_load(&e, "/no/file", FORMAT_AUTO, NULL, &err) && strstr(err.msg, "/no/file: No such file"));
}

/* n images of 2 x 3 as MNIST's files have them, with what the headers say. */
static char *put_idx(int n, uint32_t said, int n_labels, uint32_t labels_said, uint8_t first_label) {
    uint8_t images[1024] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)said, 0, 0, 0, 2, 0, 0, 0, 3};
    uint8_t labels[1024] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)labels_said};
    const char *dir = test_dir();
    char path[256], other[256];
    for (int i = 0; i < 6 * n; i++) images[16 + i] = (uint8_t)(i + 1);
    for (int i = 0; i < n_labels; i++) labels[8 + i] = (uint8_t)(first_label + i % 2);
    snprintf(path, sizeof path, "%s/my-images-idx3-ubyte", dir);
    snprintf(other, sizeof other, "%s/my-labels-idx1-ubyte", dir);
    test_write_file(path, images, 16 + 6 * (size_t)n);
    test_write_file(other, labels, 8 + (size_t)n_labels);
    return xstrdup(path);
}

static void refuse_idx(int n, uint32_t said, int n_labels, uint32_t labels_said, const Labels *known, const char *why) {
    char *path = put_idx(n, said, n_labels, labels_said, 7);
    Examples e;
    Err err = {""};
    CHECK(examples_load(&e, path, FORMAT_AUTO, known, &err));
    CHECK_MSG(strstr(err.msg, why), "\"%s\" lacks \"%s\"", err.msg, why);
    free(path);
}

TEST(examples_read_idx_images) {
    char *path = put_idx(3, 3, 3, 3, 7), place[300];
    Examples e;
    Err err;
    REQUIRE(examples_load(&e, path, FORMAT_AUTO, NULL, &err) == 0);
    CHECK(e.kind == EXAMPLES_IMAGES && e.n == 3 && e.n_units == 3 && e.channels == 1 && e.height == 2 && e.width == 3);
    CHECK(e.pixels[0] == 1 && e.pixels[17] == 18 && e.labels.n == 2 && !strcmp(labels_name(&e.labels, 1), "8"));
    CHECK(e.label[0] == 0 && e.label[1] == 1 && e.label[2] == 0);
    CHECK(strstr(examples_place(&e, 2, place, sizeof place), "my-images-idx3-ubyte: image 2"));
    examples_free(&e);
    free(path);
    Labels known = {0};
    CHECK(labels_add(&known, "7", &err) == 0);
    refuse_idx(3, 4, 3, 3, NULL, "my-images-idx3-ubyte: its header promises 24 bytes of data, there are 18");
    refuse_idx(3, 0, 3, 3, NULL, "my-images-idx3-ubyte: dimension 0 of its header is 0");
    refuse_idx(3, 3, 3, 2, NULL, "my-labels-idx1-ubyte: its header promises 2 bytes of data, there are 3");
    refuse_idx(3, 3, 4, 4, NULL, "labels-idx1-ubyte has 4 labels");
    refuse_idx(3, 3, 3, 3, &known, "my-labels-idx1-ubyte: unknown label 8 of image 1; there are 7");
    refuse_bytes("images.idx", "\0\0\x0D\3aaaabbbbcccc", 16, FORMAT_AUTO, NULL, "begins with 00000d03");
    refuse_bytes("images.idx", "\0\0\x08\3aaaa", 8, FORMAT_AUTO, NULL, "8 bytes, its header alone has 16");
    refuse_bytes("pictures.idx", "\0\0\x08\3aaaabbbbcccc", 16, FORMAT_AUTO, NULL, "has no \"images\" in it");
}

static char *put_safetensors(const char *header, size_t n_data) {
    char file[2048] = {0};
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++) file[i] = (char)(n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < n_data; i++) file[8 + n + i] = (char)(i % 3);
    return put("x.safetensors", file, 8 + n + n_data);
}

TEST(examples_read_safetensors) {
    static const struct {
        const char *header, *why;
        size_t n;
    } cases[] = {
        {"{\"images\":{\"dtype\":\"U8\",\"shape\":[2,3,2,1],\"data_offsets\":[0,12]}}", "has no tensor \"labels\"", 12},
        {"{\"images\":{\"dtype\":\"U8\",\"shape\":[2,3,2],\"data_offsets\":[0,12]}}", "images has 3 dimensions", 12},
        {"{\"images\":{\"dtype\":\"F32\",\"shape\":[3,1,1,1],\"data_offsets\":[0,12]}}  ", "images is F32, must be U8",
         12},
        {"{\"images\":{\"dtype\":\"U8\",\"shape\":[2,3,2,1],\"data_offsets\":[0,12]},"
         "\"labels\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[12,15]}}",
         "has 3 labels, 2 images", 15},
    };
    Examples e;
    Err err;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *path = put_safetensors(cases[i].header, cases[i].n);
        CHECK(examples_load(&e, path, FORMAT_AUTO, NULL, &err));
        CHECK_MSG(strstr(err.msg, cases[i].why), "\"%s\" lacks \"%s\"", err.msg, cases[i].why);
        free(path);
    }
    char *path = put_safetensors("{\"images\":{\"dtype\":\"U8\",\"shape\":[2,3,2,1],\"data_offsets\":[0,12]},"
                                 "\"labels\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[12,14]}}",
                                 14);
    REQUIRE(examples_load(&e, path, FORMAT_AUTO, NULL, &err) == 0);
    CHECK(e.n == 2 && e.channels == 3 && e.height == 2 && e.width == 1 && e.pixels[4] == 1 && e.labels.n == 2);
    examples_free(&e);
    free(path);
}

TEST(examples_read_published_files) {
    static const struct {
        const char *name;
        ExamplesFormat format;
        int n, units, labels;
    } files[] = {
        {"glue/CoLA.train.tsv", FORMAT_COLA, 8551, 8551, 2},
        {"glue/MRPC.train.tsv", FORMAT_TSV, 4076, 4076, 2},
        {"glue/MRPC.test.tsv", FORMAT_TSV, 1725, 1725, 2},
        {"glue/MRPC.gluedev.jsonl", 0, 408, 408, 2},
        {"glue/RTE.train.tsv", 0, 2490, 2490, 2},
        {"glue/SST-2.dev.jsonl", 0, 872, 872, 2},
        {"glue/stsa.binary.train", FORMAT_TREC, 6920, 6920, 2},
        {"trec/TREC.train.txt", FORMAT_TREC, 5452, 5452, 6},
        {"ner_wnut17/wnut17train.conll", 0, 3394, 62730, 13},
        {"ner_wnut17/emerging.dev.conll", 0, 1009, 15733, 13},
        {"ner_wnut17/emerging.test.annotated", FORMAT_CONLL, 1287, 23394, 13},
    };
    for (size_t i = 0; i < COUNTOF(files); i++) {
        const char *path = test_shared(files[i].name);
        if (!path) SKIP("no shared data");
        Examples e = {0};
        Err err = {""};
        bool good = examples_load(&e, path, files[i].format, NULL, &err) == 0;
        CHECK_MSG(good && e.n == files[i].n && e.n_units == files[i].units && e.labels.n == files[i].labels,
                  "%s: %d examples, %d units, %d labels; %s", path, e.n, e.n_units, e.labels.n, err.msg);
        if (good) examples_free(&e);
    }
}

/* Each with a byte for its end. */
TEST(labels_have_bounds) {
    Labels l = {0};
    char name[LABEL_BYTES + 1] = {0};
    Err err;
    memset(name, 'x', LABEL_BYTES);
    CHECK(labels_add(&l, name, &err) == -1);
    CHECK_MSG(strstr(err.msg, "has 64 bytes, at most 63"), "%s", err.msg);
    name[LABEL_BYTES - 1] = 0;
    for (int i = 0; i < LABELS_BYTES / LABEL_BYTES - 1; i++) {
        name[0] = (char)('0' + i);
        CHECK(labels_add(&l, name, &err) == i);
    }
    name[0] = 'z';
    CHECK(labels_add(&l, "abc", &err) == 63 && l.used == LABELS_BYTES - 60);
    name[60] = 0;
    CHECK(labels_add(&l, name, &err) == -1);
    CHECK_MSG(strstr(err.msg, "more than 4096 bytes"), "%s", err.msg);
    name[59] = 0;
    CHECK(labels_add(&l, name, &err) == 64 && l.used == LABELS_BYTES);
}
