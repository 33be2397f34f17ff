/* Which choices of a puzzle a waterfall makes right, and when nothing is graded. */
#include "session/grade.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *keys[] = {"bytes", "launches", "compute"};
static const fb_condition saves[] = {{.part = FB_WHY_BYTES}, {.part = FB_WHY_LAUNCHES}, {.part = FB_WHY_COMPUTE}},
                          costs[] = {{.part = FB_WHY_BYTES},
                                     {.part = FB_WHY_LAUNCHES},
                                     {.part = FB_WHY_COMPUTE, .costs = true}};

static fb_puzzle puzzle(fb_premise premise, const fb_condition *conditions)
{
    return (fb_puzzle){.premise = premise, .n_choices = 3, .choice_keys = keys, .conditions = conditions};
}

static fb_why waterfall(double bytes, double launches, double compute, double rest)
{
    fb_why why = {.us = bytes + launches + compute + rest};
    why.part[FB_WHY_BYTES] = (fb_why_part){.known = true, .us = bytes};
    why.part[FB_WHY_LAUNCHES] = (fb_why_part){.known = true, .us = launches};
    why.part[FB_WHY_COMPUTE] = (fb_why_part){.known = true, .us = compute};
    why.part[FB_WHY_REST] = (fb_why_part){.known = true, .us = rest};
    return why;
}

static void test_sign_is_part_of_it(void **unused)
{
    static const struct {
        fb_premise premise;
        const fb_condition *conditions;
        double bytes, launches, compute, rest;
        fb_grade_state state;
        bool turned;
        uint64_t right;
    } cases[] = {
        {FB_PREMISE_FASTER, saves, 5, 2, 0, 1, FB_GRADE_KNOWN, false, 1},
        {FB_PREMISE_FASTER, saves, 1, 2, 0, 1.5, FB_GRADE_KNOWN, false, 2},
        {FB_PREMISE_FASTER, saves, 1, 2, 0, 2.5, FB_GRADE_UNEXPLAINED, false, 0},  /* the rest outweighs it */
        {FB_PREMISE_FASTER, saves, 1, 3, 0, -3.5, FB_GRADE_UNEXPLAINED, false, 0}, /* … the other way too */
        {FB_PREMISE_FASTER, costs, 1, 0, 4, 0, FB_GRADE_OTHER, false, 0},          /* arithmetic saved, not paid */
        {FB_PREMISE_FASTER, saves, 2, 0, -5, 0, FB_GRADE_KNOWN, true, 4},          /* it is slower: why? */
        {FB_PREMISE_SLOWER, saves, 5, 2, 0, 0, FB_GRADE_KNOWN, true, 1},
        {FB_PREMISE_DIFFERS, costs, 2, 0, -5, 0, FB_GRADE_KNOWN, false, 4},
        {FB_PREMISE_DIFFERS, costs, 5, 0, -2, 0, FB_GRADE_KNOWN, false, 1},
        {FB_PREMISE_DIFFERS, saves, 2, 0, -5, 0, FB_GRADE_OTHER, false, 0}, /* it costs what a choice says it saves */
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_puzzle p = puzzle(cases[i].premise, cases[i].conditions);
        fb_why why = waterfall(cases[i].bytes, cases[i].launches, cases[i].compute, cases[i].rest);
        fb_grade g;
        fb_grade_of(&p, &why, &g);
        if (g.state != cases[i].state || g.turned != cases[i].turned || g.right != cases[i].right)
            fail_msg("case %d: state %d, turned %d, right %d", (int)i, g.state, g.turned, (int)g.right);
        why.tie = true;
        fb_grade_of(&p, &why, &g);
        assert_int_equal(g.state, FB_GRADE_TIE);
        assert_int_equal(g.right, 0);
    }
}

static void test_answer_functions(void **unused)
{
    fb_puzzle p = puzzle(FB_PREMISE_FASTER, saves);
    fb_why why = waterfall(5, 2, 0, 0);
    fb_grade g;
    fb_error err = {0};
    (void)unused;
    fb_grade_of(&p, &why, &g);
    assert_true(fb_grade_answer(&p, "launches", &g, &err) && g.right == 2 && g.state == FB_GRADE_KNOWN);
    assert_true(fb_grade_answer(&p, "occupancy", &g, &err) && !g.right && g.state == FB_GRADE_OTHER);
    fb_grade rest = {.state = FB_GRADE_UNEXPLAINED};
    assert_true(fb_grade_answer(&p, "bytes", &rest, &err) && !rest.right && rest.state == FB_GRADE_UNEXPLAINED);
    assert_true(fb_grade_answer(&p, "", &g, &err) && g.state == FB_GRADE_OTHER);
    assert_false(fb_grade_answer(&p, "byets", &g, &err));
    assert_non_null(strstr(err.text, "\"byets\", which is neither the key of a choice nor a part"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sign_is_part_of_it),
        cmocka_unit_test(test_answer_functions),
    };
    return cmocka_run_group_tests_name("grade", tests, NULL, NULL);
}
