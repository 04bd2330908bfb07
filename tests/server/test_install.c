/* make alone, make install, make uninstall, make deb and make deps, in a root of their own. */
#include "base/err.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Runs a shell command with BUILD and ROOT set; its output in out, its exit status. */
static int shell(const char *root, const char *command, char out[4096]) {
    const char *line = test_text("export BUILD=${BUILD:-build} ROOT=%s; { %s; } 2>&1", root, command);
    fflush(stdout);
    FILE *f = popen(line, "r");
    if (!f) return -1;
    size_t n = fread(out, 1, 4095, f);
    out[n] = 0;
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *root, const char *command, int status, const char *output) {
    char out[4096];
    int rc = shell(root, command, out);
    CHECK_MSG(rc == status && strstr(out, output), "%s: %d\n%s", command, rc, out);
}

/* Once it built a fourth one alone, whose rule had come to stand first. */
TEST(install_make_alone_builds_the_programs) {
    const char *root = test_dir();
    expect(root, "make -n BUILD=$ROOT | grep -oE -- '-o [^ ]*/noised(-train|-weights)? ' | wc -l", 0, "3\n");
}

/* A bare machine has no compiler, another no headers. */
TEST(install_make_tells_of_missing_packages) {
    const char *root = test_dir();
    const char *told = "Packages are missing: \"make deps\" installs them.\n";
    expect(root, "make BUILD=$ROOT/build CC=no-such-compiler", 2, told);
    expect(root, "make BUILD=$ROOT/build CC='cc -nostdinc'", 2, told);
    expect(root, "make BUILD=$ROOT/build CC='cc -nostdinc'", 2, "cjson/cJSON.h");
}

TEST(install_and_uninstall) {
    const char *root = test_dir();
    expect(root, "umask 077; DESTDIR=$ROOT PREFIX=/opt/noised scripts/install.sh install $BUILD", 0, "");
    expect(root, "find $ROOT/opt ! -perm -444 -o -type d ! -perm -555 | wc -l", 0, "0\n");
    expect(root, "$ROOT/opt/noised/bin/noised --version", 0, NOISED_VERSION);
    expect(root, "$ROOT/opt/noised/bin/noised-weights verify $ROOT/opt/noised/share/noised/demo", 0, "ok ");
    expect(root, "zcat $ROOT/opt/noised/share/man/man1/noised-train.1.gz", 0, ".TH NOISED-TRAIN 1");
    expect(root,
           "zcat $ROOT/opt/noised/share/man/man1/noised.1.gz | grep -xE '.SH (EXAMPLES|FILES|ENVIRONMENT|SEE ALSO)' | "
           "wc -l",
           0, "4\n");
    expect(root, "zcat $ROOT/opt/noised/share/man/man1/noised.1.gz | tail -n 1", 0,
           "api.md and RUNBOOK.md in /opt/noised/share/doc/noised\n");
    expect(root, "bash -n $ROOT/opt/noised/share/bash-completion/completions/noised", 0, "");
    expect(root, "cat $ROOT/opt/noised/share/zsh/site-functions/_noised-train", 0, "#compdef noised-train\n");
    expect(root, "cat $ROOT/opt/noised/share/fish/vendor_completions.d/noised.fish", 0, "complete -c noised -l model");
    expect(root, "cat $ROOT/opt/noised/lib/systemd/system/noised.service", 0, "ExecStart=/opt/noised/bin/noised ");
    expect(root, "cat $ROOT/opt/noised/lib/systemd/system/noised.service", 0, "LoadCredential=noised.api-key");
    expect(root, "test -s $ROOT/opt/noised/lib/systemd/system/noised.socket && echo there", 0, "there");
    expect(root, "DESTDIR=$ROOT PREFIX=/opt/noised scripts/install.sh uninstall $BUILD", 0, "");
    expect(root, "find $ROOT -type f | wc -l", 0, "0\n");
}

TEST(install_package_pleases_lintian) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("a sanitizer's build is not packed");
#endif
    if (system("{ command -v dpkg-deb && command -v dpkg-shlibdeps && command -v lintian; } >/dev/null"))
        SKIP("needs dpkg-dev and lintian");
    const char *root = test_dir();
    expect(root, "mkdir $ROOT/b && cp $BUILD/noised $BUILD/noised-train $BUILD/noised-weights $ROOT/b", 0, "");
    expect(root, "scripts/deb.sh $ROOT/b", 0, "noised_" NOISED_VERSION "_");
    expect(root, "dpkg-deb --info $ROOT/b/*.deb", 0, "libpcre2-8-0");
    expect(root, "dpkg-deb --contents $ROOT/b/*.deb | grep sysusers.d/n", 0, "./usr/lib/sysusers.d/noised.conf");
    expect(root, "lintian --allow-root --fail-on error,warning $ROOT/b/*.deb && echo fine", 0, "fine");
}

/* What the package's scripts ask of the system, noted by programs that stand in for it. */
TEST(install_package_starts_upgrades_and_leaves) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("a sanitizer's build is not packed");
#endif
    if (system("{ command -v dpkg-deb && command -v dpkg-shlibdeps; } >/dev/null")) SKIP("needs dpkg-dev");
    static const char stand_in[] =
        "mkdir $ROOT/bin && for p in deb-systemd-helper deb-systemd-invoke systemctl systemd-sysusers userdel getent; "
        "do "
        "printf '#!/bin/sh\necho %s \"$@\" >>%s/log\n' $p $ROOT >$ROOT/bin/$p; chmod +x $ROOT/bin/$p; done";
    static const struct {
        const char *run, *asks;
    } steps[] = {
        {"postinst configure ''", "systemd-sysusers noised.conf\n"},
        {"postinst configure ''", "deb-systemd-helper enable noised.socket\n"},
        {"postinst configure ''", "deb-systemd-helper enable noised.service\n"},
        {"postrm remove", "deb-systemd-helper mask noised.socket noised.service\n"},
        {"postrm purge", "deb-systemd-helper purge noised.socket noised.service\n"},
        {"postrm purge", "deb-systemd-helper unmask noised.socket noised.service\n"},
        {"postrm purge", "userdel noised\n"},
    };
    const char *root = test_dir();
    expect(root, "mkdir $ROOT/b && cp $BUILD/noised $BUILD/noised-train $BUILD/noised-weights $ROOT/b", 0, "");
    expect(root, "scripts/deb.sh $ROOT/b && dpkg-deb -R $ROOT/b/*.deb $ROOT/x", 0, "noised_" NOISED_VERSION "_");
    expect(root, stand_in, 0, "");
    for (size_t i = 0; i < COUNTOF(steps); i++) {
        expect(root,
               test_text("rm -f $ROOT/log; PATH=$ROOT/bin:$PATH sh $ROOT/x/DEBIAN/%s; cat $ROOT/log", steps[i].run), 0,
               steps[i].asks);
    }
    expect(root, "PATH=$ROOT/bin:$PATH sh $ROOT/x/DEBIAN/postinst configure ''", 0, "http://127.0.0.1:8080");
    expect(root, ". $ROOT/x/etc/default/noised; $ROOT/x/usr/bin/noised-weights verify $ROOT/x$NOISED_MODEL", 0, "ok ");
    expect(root, "cat $ROOT/x/DEBIAN/conffiles", 0, "/etc/default/noised\n");
    expect(root, "grep -h ^ExecReload $ROOT/x/usr/lib/systemd/system/*.service | sort -u", 0,
           "=/bin/sh -c \"kill -HUP");
    expect(root, "ls $ROOT/x/usr/share/doc/noised $ROOT/x/usr/share/doc/noised/examples", 0, "RUNBOOK.md");
    expect(root, "ls $ROOT/x/usr/share/doc/noised/examples", 0, "haproxy.cfg");
    expect(root, /* all of the runbook's files that do not need the tree */
           "cd $ROOT/x/usr/share/doc/noised/examples && "
           "ls $(grep -o 'deploy/[a-z-]*[.][a-z]*' ../RUNBOOK.md | sed 's#deploy/##; /^compose/d' | sort -u)",
           0, "otel-collector.yaml");
}

TEST(install_units_please_systemd) {
    if (system("command -v systemd-analyze >/dev/null")) SKIP("needs systemd-analyze");
    const char *root = test_dir();
    expect(root,
           "for u in noised.service noised.socket noised@.service noised@.socket; do "
           "sed \"s#/usr/local/bin/noised#$(realpath $BUILD)/noised#\" deploy/$u >$ROOT/$u; done; cd $ROOT && "
           "systemd-analyze verify ./noised.service ./noised.socket ./noised@8081.service ./noised@8081.socket && "
           "echo fine",
           0, "fine");
}

/* A daemon among several is held as tightly as one alone. */
TEST(install_template_has_the_same_sandbox) {
    const char *root = test_dir();
    expect(
        root,
        "sed '/^#/d; /^Description=/d' deploy/noised.service >$ROOT/one; "
        "sed '/^#/d; /^Description=/d; /noised-%i$/d; s/@%i//' deploy/noised@.service | diff $ROOT/one - && echo same",
        0, "same");
}

/* It hides /proc/meminfo, and a machine of unknown size was taken for an endless one. */
TEST(install_units_see_the_machines_memory) {
    expect("/", "grep -c ^ProcSubset=pid deploy/noised.service deploy/noised@.service", 1,
           "deploy/noised.service:0\ndeploy/noised@.service:0\n");
}

/* libgomp prefers a spin count to a policy, so none is given to what sets its own. */
TEST(install_units_leave_the_wait_policy_to_operators) {
#ifndef _OPENMP
    SKIP("built without OpenMP");
#endif
    expect("/",
           "env $(sed -n 's/^Environment=//p' deploy/noised.service) OMP_WAIT_POLICY=passive OMP_DISPLAY_ENV=verbose "
           "$BUILD/noised --version",
           0, "GOMP_SPINCOUNT = '0'");
    expect("/", "grep -r SPINCOUNT deploy", 1, "");
}

TEST(install_names_the_libraries_elsewhere) {
    expect("/", "PATH=/nowhere /bin/sh scripts/deps.sh", 0, "  libpcre2-dev\n");
}

/* Whatever the compose file mounts from this tree is there. */
TEST(install_compose_mounts_what_is_there) {
    expect("/",
           "cd deploy; for f in $(sed -n 's/.*[\" -]\\(\\.\\/[a-z./]*\\):\\/.*/\\1/p' compose.yaml); do "
           "test -f $f || echo missing: $f; echo $f; done",
           0, "./grafana/datasources.yaml");
    expect("/",
           "cd deploy; for f in $(sed -n 's/.*[\" -]\\(\\.\\/[a-z./]*\\):\\/.*/\\1/p' compose.yaml); do "
           "test -f $f || exit 1; done",
           0, "");
}

/* A fresh machine has no compiler before `make deps` has run. */
TEST(install_make_without_a_compiler_says_nothing) {
    expect("/", "test -z \"$(make CC=no-such-compiler help 2>&1 >/dev/null)\" && echo quiet", 0, "quiet");
}

TEST(install_progress_counts_and_tells_failures) {
    expect("/", "scripts/progress.sh building 60 sh -c 'for i in $(seq 60); do echo \"  CC   f$i.c\"; done'", 0,
           "building 25/60: f25.c\nbuilding 50/60: f50.c\n");
    expect("/", "test -z \"$(scripts/progress.sh building 0 echo nothing to be done)\" && echo quiet", 0, "quiet");
    expect("/", "scripts/progress.sh building - sh -c 'echo the reason >&2; exit 3' 2>&1; echo status $?", 0,
           "the reason\nstatus 3\n");
}
