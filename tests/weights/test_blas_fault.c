/* An OpenBLAS whose products depend on where a row stands, under a whole program. */
#include "tests/support/test.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BROKEN[] = "#define _GNU_SOURCE\n"
                             "#include <dlfcn.h>\n"
                             "typedef void F(int, int, int, int, int, int, float, const float *, int, const float *,"
                             " int, float, float *, int);\n"
                             "void cblas_sgemm(int l, int ta, int tb, int m, int n, int k, float p, const float *a,"
                             " int lda, const float *b, int ldb, float q, float *c, int ldc) {\n"
                             "    F *f = (F *)dlsym(RTLD_NEXT, \"cblas_sgemm\");\n"
                             "    f(l, ta, tb, m, n, k, p, a, lda, b, ldb, q, c, ldc);\n"
                             "    c[ldc] = c[ldc] * 1.0000002f;\n"
                             "}\n";

TEST(blas_that_knows_places_gives_way_to_ref) {
    const char *dir = test_dir();
    char source[300];
    snprintf(source, sizeof source, "%s/broken.c", dir);
    test_write_file(source, BROKEN, strlen(BROKEN));
    CHECK(system(test_text(
              "cc -shared -fPIC -o %s/broken.so %s && "
              "NOISED_ISA=blas ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=%s/broken.so %s/noised-weights "
              "inspect weights/demo >%s/out 2>&1",
              dir, source, dir, getenv("BUILD") ? getenv("BUILD") : "build", dir)) == 0);
    snprintf(source, sizeof source, "%s/out", dir);
    char *out = test_read_file(source, NULL);
    CHECK_MSG(out && strstr(out, openblas_get_config()) && strstr(out, "level ref computes instead of blas"), "%s",
              out ? out : "no output");
    free(out);
}
