/* Trainings beside each other: sweep makes them, compare tells how far they are apart. */
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/report/paired.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- statistics ---- */

/* Of published tables: two-sided 95%. */
TEST(paired_student_quantiles) {
    static const struct {
        int freedom;
        double t;
    } table[] = {{1, 12.7062},  {2, 4.30265},  {3, 3.18245},  {4, 2.77645},  {5, 2.57058},  {9, 2.26216},
                 {10, 2.22814}, {15, 2.13145}, {30, 2.04227}, {60, 2.00030}, {120, 1.97993}};
    for (size_t i = 0; i < COUNTOF(table); i++)
        CHECK_MSG(fabs(student_quantile(table[i].freedom) / table[i].t - 1) < 3e-6, "%d: %.6f", table[i].freedom,
                  student_quantile(table[i].freedom));
}

TEST(paired_intervals) {
    const double d[] = {0.1, 0.2, 0.3};
    Interval three = interval_of(d, 3), one = interval_of(d, 1), none = interval_of(d, 0);
    CHECK(fabs(three.mean - 0.2) < 1e-15 && fabs(three.half - 4.302653 * 0.1 / sqrt(3)) < 1e-6);
    CHECK(!interval_is_clear(&three) && isinf(one.half) && !interval_is_clear(&one) && none.n == 0);
    const double clear[] = {-0.19, -0.2, -0.21};
    Interval i = interval_of(clear, 3);
    CHECK(interval_is_clear(&i) && i.mean < 0);
}

TEST(paired_reaches_a_loss_for_good) {
    const double x[] = {10, 20, 30, 40}, y[] = {5, 3, 4, 2};
    CHECK(reaches(x, y, 4, 3) == 35); /* not 20, where it goes up again */
    CHECK(reaches(x, y, 4, 5) == 10 && reaches(x, y, 4, 4.5) == 12.5);
    CHECK(isnan(reaches(x, y, 4, 1)) && isnan(reaches(x, y, 0, 9)));
}

/* ---- runs on disk ---- */

/* A sweep of two networks, two rates and two seeds in dir/runs; `more` goes behind. */
static ChildResult sweep(const char *dir, const char *text, const char *more) {
    return trainer_run(
        test_text("sweep --config mha-nano noiseformer-v2-nano --lr 1e-3 0.004 --seeds 2 --data %s --vocab-size 300 "
                  "--steps 12 --batch 2 --window 16 --eval-every 4 --out %s/runs %s",
                  text, dir, more));
}

static ChildResult compare(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static ChildResult compare(const char *fmt, ...) {
    char args[2048] = "compare ";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args + 8, sizeof args - 8, fmt, ap);
    va_end(ap);
    return trainer_run(args);
}

static void expect(ChildResult r, int status, const char *what) {
    CHECK_MSG(r.status == status && strstr(r.output, what), "%d, not \"%s\": %s", r.status, what, r.output);
    free(r.output);
}

/* The log of a run with these losses at steps 4, 8 and 12; a step takes 2 x 16 tokens, at 16 a second. */
static void write_log(const char *dir, const char *name, const double loss[3]) {
    char path[1024], log[2048];
    int n = 0;
    snprintf(path, sizeof path, "%s/runs/%s/log.jsonl", dir, name);
    for (int step = 1; step <= 12; step++) {
        n += sprintf(log + n, "{\"step\":%d,\"loss\":5,\"tokens_per_second\":16", step);
        if (step % 4 == 0)
            n += sprintf(log + n, ",\"val_loss\":%.17g,\"val_tokens\":%d", loss[step / 4 - 1], step < 12 ? 64 : 80);
        n += sprintf(log + n, "}\n");
    }
    test_write_file(path, log, (size_t)n);
}

typedef struct Trial {
    const char *dir, *text;
} Trial;

/* Eight runs, whose logs say what is known. */
static Trial trial_open(void) {
    static const struct {
        const char *name;
        double loss[3];
    } logs[] = {
        {"mha-nano-lr0.001-seed1", {5.9, 5.8, 5.7}},
        {"mha-nano-lr0.001-seed2", {5.9, 5.8, 5.7}},
        {"mha-nano-lr0.004-seed1", {5.5, 5.0, 4.50}},
        {"mha-nano-lr0.004-seed2", {5.5, 5.2, 4.60}},
        {"noiseformer-v2-nano-lr0.001-seed1", {5.4, 4.8, 4.41}},
        {"noiseformer-v2-nano-lr0.001-seed2", {5.4, 5.0, 4.49}},
        {"noiseformer-v2-nano-lr0.004-seed1", {5.6, 5.1, 4.7}},
        {"noiseformer-v2-nano-lr0.004-seed2", {5.6, 5.1, 4.7}},
    };
    Trial t = {.dir = test_dir(), .text = trainer_text_file(20000)};
    expect(sweep(t.dir, t.text, ""), 0, "8 of 8 runs done\n");
    for (size_t i = 0; i < COUNTOF(logs); i++) write_log(t.dir, logs[i].name, logs[i].loss);
    return t;
}

static void check_width(const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n"), columns = 0;
        for (size_t i = 0; i < n; i++) columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        CHECK_MSG(columns <= 80, "%zu columns: %.*s", columns, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* Differences of 4.41 - 4.50 and 4.49 - 4.60: mean -0.1, interval 12.706 x 0.014142 / sqrt(2); the losses to be reached
 * are mha's at step 8, 5.0 and 5.2: after 6.667 and 6 steps, of 2 seconds each. */
TEST(compare_tells_differences_by_seed) {
    Trial t = trial_open();
    ChildResult r = compare("%s/runs", t.dir);
    static const char *const rows[] = {
        "\nmha-nano               0.001   2 5.700 ± 0.000",
        "+1.150 ± 0.635*  never   never\n",
        "\nmha-nano               0.004<  2 4.550 ± 0.071            base       8    16.0\n",
        "\nnoiseformer-v2-nano    0.001<  2 4.450 ± 0.057  -0.100 ± 0.127       6    12.7\n",
        "from mha-nano, lr 0.004, of the same seeds",
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) CHECK_MSG(strstr(r.output, rows[i]), "%s in\n%s", rows[i], r.output);
    check_width(r.output);
    free(r.output);
    expect(compare("%s/runs --against noiseformer-v2-nano", t.dir), 0, "+0.100 ± 0.127 ");
    expect(compare("%s/runs --loss 5", t.dir), 0, "until the loss stays below 5;");
    /* the order of the folders names the base */
    expect(compare("%1$s/runs/noiseformer-v2-nano-lr0.001-seed1 %1$s/runs/mha-nano-lr0.004-seed1", t.dir), 0,
           "+0.090 ");
}

/* The study of the family computes the same from the same numbers. */
TEST(compare_agrees_with_the_family_study) {
    if (system("python3 --version >/dev/null 2>&1")) SKIP("needs python3");
    static const char script[] =
        "import csv, sys\n"
        "sys.path[:0] = ['scripts/papers', 'scripts/family']\n"
        "import report, statistic\n"
        "runs = {}\n"
        "for x in csv.DictReader(open(sys.argv[1])):\n"
        "    runs.setdefault((x['network'], x['lr'], x['seed']), []).append((float(x['step']), float(x['val_loss'])))\n"
        "mha, noise = ([runs[n, lr, s] for s in '12'] for n, lr in "
        "(('mha-nano', '0.004'), ('noiseformer-v2-nano', '0.001')))\n"
        "d, half = statistic.difference([r[-1][1] for r in noise], [r[-1][1] for r in mha])\n"
        "at = [report.crossing([(s, b[-2][1] - l) for s, l in a[:-1]], 0) for a, b in zip(noise, mha)]\n"
        "print(*('%.9f' % statistic.student(f) for f in (1, 2, 9, 16, 31)))\n"
        "print('%+.3f ± %.3f %7.0f' % (d, half, sum(at) / 2))\n";
    Trial t = trial_open();
    const char *csv = test_text("%s/all.csv", t.dir), *file = test_text("%s/check.py", t.dir);
    ChildResult r = compare("%s/runs --csv %s", t.dir, csv);
    test_write_file(file, script, sizeof script - 1);
    FILE *f = popen(test_text("python3 -B %s %s", file, csv), "r");
    char row[128] = "", quantiles[128] = "", want[128];
    CHECK(fgets(quantiles, sizeof quantiles, f) && fgets(row, sizeof row, f) && pclose(f) == 0);
    row[strcspn(row, "\n")] = 0;
    snprintf(want, sizeof want, "%.9f %.9f %.9f %.9f %.9f\n", student_quantile(1), student_quantile(2),
             student_quantile(9), student_quantile(16), student_quantile(31));
    CHECK_MSG(!strcmp(quantiles, want), "%s%s", quantiles, want);
    CHECK_MSG(*row && strstr(r.output, row), "%s in\n%s", row, r.output);
    free(r.output);
}

TEST(compare_draws_and_lists) {
    Trial t = trial_open();
    const char *svg = test_text("%s/a.svg", t.dir), *csv = test_text("%s/a.csv", t.dir);
    expect(compare("%s/runs --svg %s --csv %s", t.dir, svg, csv), 0, "network");
    char *picture = test_read_file(svg, NULL), *rows = test_read_file(csv, NULL);
    REQUIRE(picture && rows);
    /* two networks in three charts, bands in the first and the last */
    CHECK(text_count(picture, "class=\"title\"") == 3 && text_count(picture, "<polyline") == 6 &&
          text_count(picture, "<polygon") == 4);
    CHECK(strstr(picture, ">noiseformer-v2-nano<") && !strstr(picture, "nan,") && !strstr(picture, "inf"));
    CHECK(strstr(picture, "minus that of mha-nano of the same seeds: mean, 95% interval"));
    CHECK(text_count(rows, "\n") == 1 + 8 * 3 && strstr(rows, "\nmha-nano,0.004,2,8,16.00,5.20000,64\n"));
    free(picture);
    free(rows);
}

TEST(compare_refuses_what_does_not_compare) {
    Trial t = trial_open();
    const char *other = trainer_text_file(21000);
    expect(trainer_run(test_text(
               "pretrain --config mha-nano --vocab-size 300 --data %s --steps 2 --batch 2 --window 16 --out %s/other",
               other, t.dir)),
           0, "done");
    expect(compare("%1$s/runs %1$s/other", t.dir), 1, "are of different texts (sha256 ");
    expect(compare("%s", t.dir), 0, "other"); /* a folder of folders: runs has none of its own, other is one */
    expect(trainer_run(test_text(
               "pretrain --config mha-nano --vocab-size 299 --data %s --steps 2 --batch 2 --window 16 --out %s/fewer",
               t.text, t.dir)),
           0, "done");
    expect(compare("%1$s/runs %1$s/fewer", t.dir), 1, "have different tokens (sha256 of tokenizer.json ");
    expect(compare("%1$s/runs %1$s/runs", t.dir), 1, "are the same training: seed 1");
    expect(compare("%s/runs --against mha", t.dir), 1,
           "--against mha names none of the networks; the first is mha-nano");
    expect(compare("%s/nothing", t.dir), 1, "nothing: No such file or directory");
    test_write_file(test_text("%s/runs/mha-nano-lr0.004-seed2/log.jsonl", t.dir), "{\"step\":1,\"loss\":5}\n", 20);
    expect(compare("%s/runs", t.dir), 0, "seed2 has done 1 of 12 steps\n");
    expect(compare("%s/runs/mha-nano-lr0.004-seed2", t.dir), 1, "none of the runs is finished");
}

/* A name ends in a digit that is no seed, and one run was made longer: by the same steps it is compared to its end. */
TEST(compare_of_runs_that_pretrain_was_asked_for) {
    static const char *const runs[] = {"net-v1 --steps 12", "net-v2 --steps 7", "net-v2 --steps 12 --resume"};
    const char *dir = test_dir(), *text = trainer_text_file(80000);
    for (size_t i = 0; i < COUNTOF(runs); i++) {
        expect(trainer_run(test_text(
                   "pretrain --config mha-nano --vocab-size 300 --data %s --batch 2 --window 16 --eval-every 3 "
                   "--schedule constant --out %s/%s",
                   text, dir, runs[i])),
               0, "done");
    }
    ChildResult r = compare("%s --against net-v1", dir);
    CHECK_MSG(r.status == 0 && strstr(r.output, "\nnet-v2 "), "%s", r.output);
    const char *row = strstr(r.output, "\nnet-v1 ");
    CHECK_MSG(row && strstr(row, " base       9 "), "%s", r.output);
    row = strstr(r.output, "\nnet-v2 ");
    CHECK_MSG(row && strstr(row, "+0.000"), "%s", r.output);
    free(r.output);
}

/* ---- sweep ---- */

TEST(sweep_reads_folders_of_ids) {
    const char *dir = test_dir(), *text = trainer_text_file(20000);
    char args[1024];
    snprintf(args, sizeof args, "tokenize --data %s --vocab-size 300 --out %s/ids", text, dir);
    expect(trainer_run(args), 0, "");
    snprintf(args, sizeof args,
             "sweep --config mha-nano --lr 1e-3 --seeds 1 --data %1$s/ids:3 %1$s/ids --steps 2 --batch 2 --window 16 "
             "--out %1$s/runs",
             dir);
    expect(trainer_run(args), 0, "sweep: 1 of 1 runs done\n");
    expect(trainer_run(args), 0, "sweep: 1 of 1 runs done\n");
}

/* Stops a new sweep of four runs within the second, and goes on. False when the signal came after that run's end. */
static bool stop_in_second_run(const char *args, const char *dir) {
    char path[1024], before[65], after[65];
    test_remove(test_text("%s/runs", dir));
    snprintf(path, sizeof path, "%s/runs/noiseformer-v2-nano-lr0.001-seed1/log.jsonl", dir);
    ChildResult r = trainer_run_stopped(args, path, 500, SIGINT);
    bool stopped = r.status == 130 && strstr(r.output, "sweep: stopped, the same command goes on from here");
    CHECK_MSG(stopped || r.status == 0, "%d: %s", r.status, r.output);
    free(r.output);
    snprintf(path, sizeof path, "%s/runs/mha-nano-lr0.001-seed1", dir);
    trainer_hash_file(path, "log.jsonl", before);
    r = trainer_run(args);
    CHECK_MSG(r.status == 0, "%d: %s", r.status, r.output);
    bool within = strstr(r.output, "sweep: 1 of 4 runs done, about ") != NULL;
    free(r.output);
    trainer_hash_file(path, "log.jsonl", after);
    CHECK(!strcmp(before, after)); /* not trained again */
    return within;
}

TEST(sweep_goes_on_and_makes_what_pretrain_makes) {
    const char *dir = test_dir(), *text = trainer_text_file(20000);
    char path[1024], args[1024], swept[65], alone[65];
    snprintf(args, sizeof args,
             "sweep --config mha-nano noiseformer-v2-nano --lr 1e-3 --seeds 2 --data %s --vocab-size 300 --steps 300 "
             "--batch 2 --window 16 --eval-every 100 --out %s/runs",
             text, dir);
    bool within = false;
    for (int try = 0; try < TRIES && !within; try++) within = stop_in_second_run(args, dir);
    CHECK(within);
    expect(trainer_run(args), 0, "sweep: 4 of 4 runs done\n");
    snprintf(
        args, sizeof args,
        "pretrain --config noiseformer-v2-nano --lr 1e-3 --seed 1 --data %s --vocab-size 300 --steps 300 --batch 2 "
        "--window 16 --eval-every 100 --out %s/alone",
        text, dir);
    expect(trainer_run(args), 0, "done");
    snprintf(path, sizeof path, "%s/runs/noiseformer-v2-nano-lr0.001-seed1", dir);
    trainer_hash_file(path, "model.safetensors", swept);
    snprintf(path, sizeof path, "%s/alone", dir);
    trainer_hash_file(path, "model.safetensors", alone);
    CHECK(!strcmp(swept, alone));
}

TEST(sweep_refuses_before_it_trains) {
    const char *dir = test_dir(), *text = trainer_text_file(20000), *other = trainer_text_file(21000);
    expect(sweep(dir, text, "--kl-weight 1e-2 --perturb-sigma 1"), 2, "--perturb-sigma 1 needs --perturb");
    expect(sweep(dir, text, "--lr abc"), 2, "--lr");
    expect(trainer_run(test_text("sweep --config mha-nano mah-nano --lr 1e-3 --data %s --out %s/runs", text, dir)), 1,
           "mah-nano");
    expect(trainer_run(test_text("sweep --config mha-nano --lr 1e-3 0.001 --data %s --out %s/runs", text, dir)), 1,
           "has two whose runs would be ");
    CHECK(test_read_file(test_text("%s/runs", dir), NULL) == NULL);
    expect(sweep(dir, text, ""), 0, "8 of 8 runs done");
    expect(sweep(dir, text, "--clip 2"), 1,
           "seed1 was trained with --clip \"1\", this sweep has \"2\": another --out keeps both");
    expect(sweep(dir, other, ""), 1, "seed1 was trained on other texts (sha256 ");
}

/* A rate at which a run diverges costs that run, not the sweep. */
TEST(sweep_outlives_a_run_that_fails) {
    const char *dir = test_dir(), *text = trainer_text_file(20000);
    ChildResult r = trainer_run(test_text(
        "sweep --config mha-nano --lr 90 1e-3 --seeds 1 --data %s --vocab-size 300 --steps 40 --warmup 0 --clip 0 "
        "--batch 2 --window 16 --out %s/runs",
        text, dir));
    CHECK_MSG(r.status == 1 && strstr(r.output, "sweep: 1 of 2 runs done") && strstr(r.output, "not finished: ") &&
                  strstr(r.output, "mha-nano-lr90-seed1\n"),
              "%d: %s", r.status, r.output);
    free(r.output);
}
