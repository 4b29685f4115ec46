"""Everything that turns a trace, a scenario, a counterexample or a divergence into something people look at.

`sources` reads them, `judge` says what is wrong, `story` tells them step by step; `page` (HTML), `terminal`, `sarif`,
`markdown` and `perfetto` show the story. `catalogue` answers what a name means.
"""
