"""The nightly job: many targets and candidates, incremental, into a store; says what changed."""
