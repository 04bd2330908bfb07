/* The weight-noise experiments of scripts/papers on a handful of questions and sentences: they train, find what is
 * finished, and write it beside what the paper says. */
#include "base/err.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char vectors[] = "who 1 0\nwhere 0 1\nis 0.5 0.5\nhe -1 0\nit 0 -1\n? 0.1 0.1\n";
static const char questions[] =
    "HUM:ind Who is he ?\nLOC:city Where is it ?\nHUM:ind Who is it ?\nLOC:other Where is he ?\n";
static const char tags[] = "He\tB-person\nis\tO\n?\tO\n\nWhere\tO\nis\tO\nParis\tB-location\n\n";

static int run_noise(const char *dir, const char *task, const char *size, const char *noise, int seeds, char **output) {
    int status = system(test_text("OMP_NUM_THREADS=1 DATA=%s RUNS=%s/runs DOCS=%s/docs SIZES=%s %s SEEDS=%d "
                                  "EPOCHS=2 python3 scripts/papers/%s.py >%s/out.txt 2>&1",
                                  dir, dir, dir, size, noise, seeds, task, dir));
    *output = test_read_file(test_text("%s/out.txt", dir), NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run(const char *dir, const char *task, const char *size, int seeds, char **output) {
    return run_noise(dir, task, size, "MODES=layer-before SIGMAS=0.01", seeds, output);
}

static void write_in(const char *dir, const char *folder, const char *name, const char *text) {
    mkdir(test_text("%s/%s", dir, folder), 0755);
    test_write_file(test_text("%s/%s/%s", dir, folder, name), text, strlen(text));
}

static bool has_python(void) { return system("python3 --version >/dev/null 2>&1") == 0; }

static const char *put_data(void) {
    const char *dir = test_dir();
    write_in(dir, "vectors", "glove25_pca_subset.txt", vectors);
    write_in(dir, "trec", "TREC.train.txt", questions);
    write_in(dir, "trec", "TREC.test.txt", questions);
    write_in(dir, "ner_wnut17", "wnut17train.conll", tags);
    write_in(dir, "ner_wnut17", "emerging.dev.conll", tags);
    write_in(dir, "ner_wnut17", "emerging.test.annotated", tags);
    return dir;
}

static void check_task(const char *task, const char *size, const char *claim) {
    if (!has_python()) SKIP("needs python3");
    const char *dir = put_data();
    char *output;
    for (int again = 0; again < 2; again++) {
        CHECK_MSG(run(dir, task, size, 2, &output) == 0, "%s: %s", task, output);
        CHECK_MSG(again == !strstr(output, "begins"), "%s: %s", task, output);
        free(output);
    }
    /* Rows of the csv outlive their runs, and a smaller plan. */
    CHECK(rename(test_text("%s/runs", dir), test_text("%s/runs-elsewhere", dir)) == 0);
    for (int seeds = 3; seeds > 0; seeds -= 2) {
        CHECK_MSG(run(dir, task, size, seeds, &output) == 0, "%s: %s", task, output);
        CHECK_MSG(!strstr(output, "-1: begins") && !strstr(output, "-2: begins"), "%s: %s", task, output);
        CHECK_MSG((seeds == 3) == !!strstr(output, "-3: begins"), "%s: %s", task, output);
        free(output);
    }
    char *table = test_read_file(test_text("%s/docs/%s.md", dir, task), NULL);
    CHECK_MSG(table && strstr(table, claim) && strstr(table, "| layer-before | 0.01 |"), "%s: %s", task, table);
    char *picture = test_read_file(test_text("%s/docs/%s.svg", dir, task), NULL);
    CHECK(picture && strstr(picture, "layer-before</text>") && strstr(picture, "</svg>"));
    char *seeds = test_read_file(test_text("%s/docs/%s.csv", dir, task), NULL);
    CHECK_MSG(seeds && strstr(seeds, "\nsize,mode,sigma,seed,accuracy") &&
                  strstr(seeds, test_text("\n%s,layer-before,0.01,3,", size)),
              "%s: %s", task, seeds);
    free(seeds);
    free(table);
    free(picture);
}

/* In a copy of the page, of its runs and of what counts them. */
static int check_pages(const char *dir, const char *before, const char *how, char **output) {
    int status = system(
        test_text("{ cd %s && %s python3 -B scripts/papers/check.py %s; } >%s/out.txt 2>&1", dir, before, how, dir));
    *output = test_read_file(test_text("%s/out.txt", dir), NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What another result of one seed makes wrong. */
TEST(papers_pages_say_what_their_runs_do) {
    if (!has_python()) SKIP("needs python3");
    static const struct {
        const char *swap, *row;
    } swaps[] = {
        {"sed -i 's/^own,symmetric,2,\\(.*\\),[0-9.]*$/own,symmetric,2,\\1,9/' docs/family/runs.csv;",
         "docs/papers/README.md contradicts the runs, which say (make docs):\n| NoiseFormer | validation loss: "
         "symmetric above plain attention"},
        {"sed -i 's/^conditioned,2,[0-9.]*,/conditioned,2,9,/' docs/papers/noiseformer.csv;",
         "docs/papers/noiseformer.md contradicts the runs, which say (make docs):\n| III-E, no figure |"}};
    const char *dir = test_dir();
    char *output;
    REQUIRE(system(test_text("cd %s && mkdir scripts docs docs/family && cp -r \"$OLDPWD/scripts/papers\" scripts && "
                             "cp -r \"$OLDPWD/docs/papers\" docs && cp \"$OLDPWD/docs/family/runs.csv\" docs/family",
                             dir)) == 0);
    CHECK_MSG(check_pages(dir, "", "", &output) == 0, "%s", output);
    free(output);
    for (size_t i = 0; i < COUNTOF(swaps); i++) {
        CHECK(check_pages(dir, swaps[i].swap, "", &output) != 0);
        CHECK_MSG(strstr(output, swaps[i].row), "%s", output);
        free(output);
        CHECK_MSG(check_pages(dir, "", "--write", &output) == 0, "%s", output);
        free(output);
        CHECK_MSG(check_pages(dir, "", "", &output) == 0, "%s", output);
        free(output);
    }
}

TEST(papers_trec) { check_task("trec", "narrowshallow", "| about +20 |"); }

/* That is a result: the plan goes on, and nobody trains it again. */
TEST(papers_tell_what_diverges) {
    if (!has_python()) SKIP("needs python3");
    const char *dir = put_data();
    char *output;
    for (int again = 0; again < 2; again++) {
        CHECK_MSG(run_noise(dir, "trec", "narrowshallow", "MODES=all-after SIGMAS=100", 1, &output) == 0, "%s", output);
        CHECK_MSG(again == !strstr(output, "100-1: begins"), "%s", output);
        free(output);
    }
    char *page = test_read_file(test_text("%s/docs/trec.md", dir), NULL);
    CHECK_MSG(page && strstr(page, "| all-after | 100 | 0, 1 diverged |"), "%s", page);
    free(page);
}

/* A training that was interrupted goes on as it began, and begins anew where another one is asked for. */
TEST(papers_go_on_with_the_same_plan_only) {
    if (!has_python()) SKIP("needs python3");
    static const char trainer[] = "#!/bin/sh\necho \"$*\" >>$RUNS/calls\nmkdir -p \"$3\"; echo >\"$3/state\"\n"
                                  "[ ! -e $RUNS/cut ] || { rm $RUNS/cut; exit 130; }\n";
    static const char script[] = "import sys; sys.path.insert(0, 'scripts/papers')\nimport papers\n"
                                 "papers.train('pretrain', 'x/a-1', '--lr', sys.argv[1])\n";
    const char *dir = test_dir();
    write_in(dir, "build", "noised-train", trainer);
    write_in(dir, "build", "train.py", script);
    CHECK(system(test_text(
              "export RUNS=%s/runs BUILD=%s/build; chmod +x $BUILD/noised-train; mkdir $RUNS; t=$BUILD/train.py;"
              "{ for lr in 1 1 2 1; do [ $lr = 2 ] || touch $RUNS/cut; python3 -B $t $lr; done; python3 -B $t 1; } "
              ">$RUNS/out 2>&1",
              dir, dir)) == 0);
    char *calls = test_read_file(test_text("%s/runs/calls", dir), NULL);
    CHECK_MSG(
        calls &&
            !strcmp(calls, test_text("pretrain --out %1$s/runs/x/a-1 --lr 1\npretrain --out %1$s/runs/x/a-1 --resume\n"
                                     "pretrain --out %1$s/runs/x/a-1 --lr 2\npretrain --out %1$s/runs/x/a-1 --lr 1\n"
                                     "pretrain --out %1$s/runs/x/a-1 --resume\n",
                                     dir)),
        "%s", calls);
    free(calls);
}

TEST(papers_ner) { check_task("ner", "shallow", "| the same |"); }

TEST(papers_say_where_data_are) {
    if (!has_python()) SKIP("needs python3");
    const char *dir = test_dir();
    char *output;
    CHECK(run(dir, "trec", "narrow", 2, &output) == 1);
    CHECK_MSG(strstr(output, "from https://cogcomp"), "%s", output);
    free(output);
    write_in(dir, "trec", "TREC.train.txt", questions);
    write_in(dir, "trec", "TREC.test.txt", questions);
    CHECK(run(dir, "trec", "narrow", 2, &output) == 1);
    CHECK_MSG(strstr(output, "from https://nlp.stanford.edu"), "%s", output);
    free(output);
}

/* The exact words of lm-evaluation-harness' task definitions: a line of each data set, and what it makes of it. */
static const struct {
    const char *task, *line, *asked;
} prompts[] = {
    {"arc_challenge",
     "{\"question\": \"Why?\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\"]}, \"answerKey\": "
     "\"B\"}",
     "{\"query\": \"Question: Why?\\nAnswer:\", \"choices\": [\"a\", \"b\"], \"gold\": 1}"},
    {"arc_easy", "{\"query\": \"Question: Why?\", \"choices\": [\"a\", \"b\"], \"gold\": 1}",
     "{\"query\": \"Question: Why?\\nAnswer:\", \"choices\": [\"a\", \"b\"], \"gold\": 1}"},
    {"hellaswag",
     "{\"activity_label\": \"Tea\", \"ctx_a\": \"How to. [title] Boil [step]  water.\", \"ctx_b\": \"the Pot\", "
     "\"endings\": "
     "[\" sings. [substeps] Loud.\", \"falls.\"], \"label\": \"1\"}",
     "{\"query\": \"Tea: How to.. Boil  water. The pot\", \"choices\": [\"sings. Loud.\", \"falls.\"], \"gold\": 1}"},
    {"piqa", "{\"goal\": \"To cut\", \"sol1\": \"use a knife\", \"sol2\": \"use milk\", \"label\": 0}",
     "{\"query\": \"Question: To cut\\nAnswer:\", \"choices\": [\"use a knife\", \"use milk\"], \"gold\": 0}"},
    {"piqa", "{\"query\": \"Question: To cut\\n\", \"choices\": [\"use a knife\", \"use milk\"], \"gold\": 0}",
     "{\"query\": \"Question: To cut\\nAnswer:\", \"choices\": [\"use a knife\", \"use milk\"], \"gold\": 0}"},
    {"sciq",
     "{\"support\": \" Ice melts.\", \"question\": \"What melts?\", \"distractor1\": \"a\", \"distractor2\": \"b\", "
     "\"distractor3\": \"c\", \"correct_answer\": \"ice\"}",
     "{\"query\": \"Ice melts.\\nQuestion: What melts?\\nAnswer:\", \"choices\": [\"a\", \"b\", \"c\", \"ice\"], "
     "\"gold\": "
     "3}"},
    {"siqa",
     "{\"context\": \"Ann ran.\", \"question\": \"Why?\", \"answerA\": \"a\", \"answerB\": \"b\", \"answerC\": \"c\", "
     "\"label\": "
     "\"3\"}",
     "{\"query\": \"Q: Ann ran. Why?\\nA:\", \"choices\": [\"a\", \"b\", \"c\"], \"gold\": 2}"},
    {"siqa", "{\"query\": \"Ann ran. Why?\", \"choices\": [\"a\", \"b\", \"c\"], \"gold\": 2}",
     "{\"query\": \"Q: Ann ran. Why?\\nA:\", \"choices\": [\"a\", \"b\", \"c\"], \"gold\": 2}"},
    {"winogrande",
     "{\"sentence\": \"Ann met Bob and _ was glad.\", \"option1\": \"Ann\", \"option2\": \"Bob\", \"answer\": \"2\"}",
     "{\"contexts\": [\"Ann met Bob and Ann\", \"Ann met Bob and Bob\"], \"continuation\": \"was glad.\", \"gold\": "
     "1}"},
    {"openbook_qa",
     "{\"question_stem\": \"Fog is\", \"choices\": {\"text\": [\"wet\", \"dry\"], \"label\": [\"A\", \"B\"]}, "
     "\"answerKey\": "
     "\"A\"}",
     "{\"query\": \"Fog is\", \"choices\": [\"wet\", \"dry\"], \"gold\": 0}"},
    {"boolq", "{\"passage\": \"Ice melts.\", \"question\": \"does ice melt\", \"label\": 1}",
     "{\"query\": \"Ice melts.\\nQuestion: does ice melt?\\nAnswer:\", \"choices\": [\"no\", \"yes\"], \"gold\": 1}"},
    {"boolq",
     "{\"query\": \"Passage: Ice melts.\\nQuestion: does ice melt?\", \"choices\": [\"no\", \"yes\"], \"gold\": 1}",
     "{\"query\": \"Ice melts.\\nQuestion: does ice melt?\\nAnswer:\", \"choices\": [\"no\", \"yes\"], \"gold\": 1}"},
    {"lambada_openai", "{\"text\": \"She went to the sea\"}",
     "{\"context\": \"She went to the\", \"continuation\": \"sea\"}"},
};

TEST(papers_ask_as_the_harness_does) {
    if (!has_python()) SKIP("needs python3");
    const char *dir = test_dir();
    char path[400], command[1000];
    snprintf(path, sizeof path, "%s/asked.txt", dir);
    for (size_t i = 0; i < COUNTOF(prompts); i++) {
        write_in(dir, "eval", "one.jsonl", prompts[i].line);
        snprintf(command, sizeof command, "python3 scripts/papers/prompts.py %s %s/eval/one.jsonl >%s 2>&1",
                 prompts[i].task, dir, path);
        CHECK_MSG(system(command) == 0, "%s", command);
        char *said = test_read_file(path, NULL);
        size_t n = strlen(prompts[i].asked);
        CHECK_MSG(said && !strncmp(said, prompts[i].asked, n) && !strcmp(said + n, "\n"), "%s: %s", prompts[i].task,
                  said);
        free(said);
    }
}
