"""The recipe of the support verdict: signals of judged answers, boosted trees, regressions, thresholds."""
