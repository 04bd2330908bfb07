/* What bash, zsh and fish themselves make of the completion that the programs print. */
#include "base/err.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

/* What a user has typed, and the one way to go on. */
static const struct {
    const char *line, *word;
} cases[] = {
    {"noised-train pretr", "pretrain"},
    {"noised-train pretrain --sched", "--schedule"},
    {"noised-train pretrain --schedule lin", "linear"},
    {"noised-train pretrain --schedule=lin", "--schedule=linear"},
    {"noised-train pretrain --config noiseformer-v2-n", "noiseformer-v2-nano"},
    {"noised-train finetune --config trec-narrowsh", "trec-narrowshallow"},
    {"noised-train finetune --pool me", "mean"},
    {"noised-train pretrain --data one.t", "one.txt"},
    {"noised-train pretrain --data=one.t", "--data=one.txt"},
    {"noised-train pretrain --data one.txt two.txt --sched", "--schedule"},
    {"noised-train compare tw", "two.txt"},
    {"noised-train sample --sched", NULL},
    {"noised-weights verify tw", "two.txt"},
    {"noised --thr", "--threads"},
};

/* bash and zsh complete in a terminal only: what the line has become. JOINS is a sign that bash breaks no word at. */
static const char zshrc[] = "fpath=($ROOT $fpath)\n"
                            "autoload -U compinit\n"
                            "compinit -u -D\n"
                            "capture() { zle complete-word; print -r -- \"$BUFFER\" >$ROOT/out; exit }\n"
                            "zle -N capture\n"
                            "bindkey '^X^A' capture\n";
static const char bashrc[] = "for f in *.bash; do . ./$f; done\n"
                             "COMP_WORDBREAKS=${COMP_WORDBREAKS//$JOINS}\n"
                             "capture() { printf '%s\\n' \"$READLINE_LINE\" >out; exit; }\n"
                             "bind -x '\"\\C-x\\C-a\": capture'\n";
static const char in_zsh[] =
    "cd $ROOT && rm -f out && timeout 60 zsh -fc 'zmodload zsh/zpty; zpty z \"ZDOTDIR=$ROOT zsh -i\"; "
    "zpty -w -n z \"$LINE\"$'\\''\\x18\\x01'\\''; while zpty -r z line; do :; done' && cat out";
static const char in_fish[] =
    "cd $ROOT && HOME=$ROOT fish -c 'for f in *.fish; source $f; end; complete -C \"$LINE\" | cut -f1'";
static const char in_bash[] =
    "cd $ROOT && rm -f out && printf '%s\\t\\30\\1' \"$LINE\" | "
    "timeout 60 script -qec 'bash --noprofile --rcfile .bashrc -i' /dev/null >/dev/null && cat out";

static void output_of(const char *command, char out[4096]) {
    FILE *f = popen(command, "r");
    REQUIRE(f);
    size_t n = fread(out, 1, 4095, f);
    out[n] = 0;
    pclose(f);
}

/* The scripts of all programs, in files named as the shell wants them, and its settings. */
static void check_shell(const char *shell, const char *file, const char *settings, const char *command) {
    const char *root = test_dir();
    char out[4096];
    FILE *f = popen(
        test_text("cat >%s/.%src && touch %s/one.txt %s/two.txt && for p in noised noised-train noised-weights; do "
                  "${BUILD:-build}/$p --help=completion-%s >%s/%s || exit 1; done",
                  root, shell, root, root, shell, root, file),
        "w");
    REQUIRE(f && fputs(settings, f) >= 0 && pclose(f) == 0);
    setenv("ROOT", root, 1);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        setenv("LINE", cases[i].line, 1);
        output_of(command, out);
        out[strcspn(out, "\n")] = 0;
        size_t n = strlen(out);
        while (n && strchr(" =", out[n - 1])) out[--n] = 0;
        const char *last = strrchr(out, ' ') ? strrchr(out, ' ') + 1 : out;
        if (cases[i].word)
            CHECK_MSG(!strcmp(last, cases[i].word), "%s, %s: %s", shell, cases[i].line, out);
        else
            CHECK_MSG(!strstr(out, "schedule"), "%s, %s: %s", shell, cases[i].line, out);
    }
    unsetenv("ROOT");
    unsetenv("LINE");
}

TEST(completion_in_bash) { check_shell("bash", "$p.bash", bashrc, in_bash); }

TEST(completion_in_bash_that_joins_equals) {
    setenv("JOINS", "=", 1);
    check_shell("bash", "$p.bash", bashrc, in_bash);
    unsetenv("JOINS");
}

TEST(completion_in_zsh) {
    if (system("command -v zsh >/dev/null")) SKIP("needs zsh");
    check_shell("zsh", "_$p", zshrc, in_zsh);
}

TEST(completion_in_fish) {
    if (system("command -v fish >/dev/null")) SKIP("needs fish");
    check_shell("fish", "$p.fish", "", in_fish);
}
