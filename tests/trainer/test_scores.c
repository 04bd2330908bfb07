/* Metrics against cases worked out by hand from their definitions. */
#include "base/err.h"
#include "tests/support/test.h"
#include "trainer/tasks/entities.h"
#include "trainer/tasks/scores.h"

#include <math.h>
#include <string.h>

static void check_near(double got, double want, const char *what) {
    CHECK_MSG(fabs(got - want) < 1e-12, "%s is %.15g, by hand %.15g", what, got, want);
}

TEST(scores_of_classes) {
    /* TP 2, FN 1, FP 1, TN 4 */
    static const int gold[] = {1, 1, 1, 0, 0, 0, 0, 0}, got[] = {1, 1, 0, 1, 0, 0, 0, 0};
    check_near(score_accuracy(gold, got, 8), 6.0 / 8, "accuracy");
    check_near(score_f1(gold, got, 8, 1), 4.0 / 6, "F1 of 1");
    check_near(score_f1(gold, got, 8, 0), 8.0 / 10, "F1 of 0");
    check_near(score_matthews(gold, got, 8, 2), (2.0 * 4 - 1 * 1) / sqrt(3.0 * 3 * 5 * 5), "Matthews");
    /* confusion [[2,1,0],[0,1,1],[0,0,1]]: c 4, n 6, p (2,2,2), t (3,2,1) */
    static const int gold3[] = {0, 0, 0, 1, 1, 2}, got3[] = {0, 0, 1, 1, 2, 2};
    check_near(score_matthews(gold3, got3, 6, 3), (4.0 * 6 - (6 + 4 + 2)) / sqrt((36.0 - 12) * (36 - 14)),
               "Matthews of 3");
    check_near(score_f1(gold3, got3, 6, 2), 2.0 / 3, "F1 of 2");
}

TEST(scores_where_nothing_is_told_apart) {
    static const int gold[] = {1, 0, 1}, same[] = {1, 1, 1}, none[] = {0, 0, 0};
    check_near(score_matthews(gold, same, 3, 2), 0, "Matthews of one answer");
    check_near(score_matthews(same, gold, 3, 2), 0, "Matthews of one truth");
    check_near(score_matthews(same, same, 3, 2), 0, "Matthews of one class");
    check_near(score_matthews(gold, gold, 3, 2), 1, "Matthews of truth");
    static const int other[] = {0, 1, 0};
    check_near(score_matthews(gold, other, 3, 2), -1, "Matthews of lies");
    check_near(score_f1(none, none, 3, 1), 0, "F1 of nothing");
    check_near(score_f1(gold, none, 3, 1), 0, "F1 of no answer");
    check_near(score_accuracy(gold, gold, 3), 1, "accuracy");
}

TEST(scores_of_numbers) {
    static const double y[] = {1, 3, 2, 6};
    Spread s = score_spread(y, 4);
    check_near(s.mean, 3, "mean");
    check_near(s.deviation, sqrt(14.0 / 3), "deviation");
    check_near(score_spread(y, 1).deviation, 0, "deviation of one");
}

/* Tags as words; *counts of one sentence. */
static EntityCounts count(const char *gold, const char *got) {
    static const char *const names[] = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-PER", "S-PER", "S-LOC"};
    Labels l = {0};
    Err err;
    int tags[2][16], n[2] = {0, 0};
    const char *texts[] = {gold, got};
    for (size_t i = 0; i < COUNTOF(names); i++) labels_add(&l, names[i], &err);
    for (int k = 0; k < 2; k++) {
        char copy[256], *rest = copy;
        snprintf(copy, sizeof copy, "%s", texts[k]);
        for (char *word; (word = strtok_r(rest, " ", &rest));) tags[k][n[k]++] = labels_find(&l, word);
    }
    EntityCounts c = {0};
    BUG_ON(n[0] != n[1]);
    entities_count(&c, &l, tags[0], tags[1], n[0]);
    return c;
}

TEST(scores_of_entities) {
    static const struct {
        const char *gold, *got;
        int n_gold, n_found, n_right;
    } cases[] = {
        {"B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC", 2, 2, 2},
        {"B-PER I-PER O B-LOC", "B-PER O O B-LOC", 2, 2, 1},     /* too short: wrong */
        {"B-PER I-PER O O", "B-PER I-PER I-PER O", 1, 1, 0},     /* too long */
        {"B-PER I-PER O B-LOC", "B-LOC I-LOC O B-LOC", 2, 2, 1}, /* the type */
        {"I-PER I-PER O I-LOC", "B-PER I-PER O B-LOC", 2, 2, 2}, /* IOB1 and IOB2 say the same */
        {"I-PER B-PER O O", "B-PER B-PER O O", 2, 2, 2},         /* IOB1's B between neighbours */
        {"I-PER I-LOC O O", "B-PER B-LOC O O", 2, 2, 2},         /* a new type is a new chunk */
        {"B-PER I-LOC I-LOC O", "B-PER B-LOC I-LOC O", 2, 2, 2}, /* an I of another type too */
        {"B-PER B-PER O O", "B-PER I-PER O O", 2, 1, 0},         /* joined */
        {"O O O O", "B-PER O B-LOC I-LOC", 0, 2, 0},
        {"B-PER O B-LOC I-LOC", "O O O O", 2, 0, 0},
        {"O O", "O O", 0, 0, 0},
        {"S-PER B-PER E-PER S-LOC", "B-PER B-PER I-PER B-LOC", 3, 3, 3}, /* with ends */
        {"B-PER E-PER I-PER O", "B-PER I-PER B-PER O", 2, 2, 2},
        {"S-PER S-PER O O", "B-PER I-PER O O", 2, 1, 0},
        {"O B-LOC I-LOC O B-PER", "B-LOC I-LOC O O B-PER", 2, 2, 1}, /* shifted by one */
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        EntityCounts c = count(cases[i].gold, cases[i].got);
        CHECK_MSG(c.gold == cases[i].n_gold && c.found == cases[i].n_found && c.right == cases[i].n_right,
                  "%s against %s: %d gold, %d found, %d right", cases[i].got, cases[i].gold, c.gold, c.found, c.right);
    }
    EntityCounts c = {.gold = 4, .found = 5, .right = 3}, none = {0};
    check_near(entities_f1(&c), 2 * (3.0 / 5) * (3.0 / 4) / (3.0 / 5 + 3.0 / 4), "F1");
    check_near(entities_f1(&none), 0, "F1 of nothing");
}

TEST(scores_know_tags_of_chunks) {
    static const struct {
        const char *names[3];
        bool tagged;
    } cases[] = {{{"O", "B-PER", "I-creative-work"}, true},
                 {{"O", "NN", "B-PER"}, false},
                 {{"O", "B-", "O"}, false},
                 {{"O", "O", "O"}, false},
                 {{"X-PER", "O", "O"}, false}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Labels l = {0};
        Err err;
        for (int k = 0; k < 3; k++) labels_add(&l, cases[i].names[k], &err);
        CHECK_MSG(entities_tagged(&l) == cases[i].tagged, "case %zu", i);
    }
}
