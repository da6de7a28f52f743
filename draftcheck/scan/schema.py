"""The tables of the store, one step per version. Steps that were released never change.

A name that code has outgrown stays as it is in the file and is translated by NAMES, so that a
store of any age can be read as it is.
"""

from __future__ import annotations

APPLICATION = 0x64726368
"""PRAGMA application_id: this SQLite file is a scan store."""
NAMES = {"tokenizer_fingerprint": "voice"}
"""Fields of rows whose columns are called otherwise."""

FIRST = """
CREATE TABLE scans (
  number INTEGER PRIMARY KEY, state TEXT NOT NULL, started TEXT NOT NULL, finished TEXT,
  draftcheck TEXT NOT NULL, settings TEXT NOT NULL, counts TEXT NOT NULL DEFAULT '{}',
  seconds REAL
);
CREATE TABLE targets (
  ref TEXT PRIMARY KEY, place INTEGER NOT NULL, source TEXT NOT NULL, problem TEXT,
  scan INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE pins (
  target TEXT NOT NULL, draft TEXT NOT NULL, engines TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (target, draft)
) WITHOUT ROWID;
-- What the Hub's listing says, and how far the screening of each repo has come.
CREATE TABLE repos (
  name TEXT PRIMARY KEY, sha TEXT NOT NULL, seen INTEGER NOT NULL, listed TEXT NOT NULL,
  stage TEXT, why TEXT, files_sha TEXT, files BLOB, tokenizer TEXT,
  gguf TEXT, problem TEXT
) WITHOUT ROWID;
CREATE INDEX repos_seen ON repos (seen);
-- A vocabulary file is read once, whoever has it.
CREATE TABLE tokenizers (
  digest TEXT PRIMARY KEY, fingerprint TEXT, family TEXT, size INTEGER, problem TEXT
) WITHOUT ROWID;
CREATE TABLE facts (digest TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
  ref TEXT PRIMARY KEY, kind TEXT NOT NULL, revision TEXT, tried TEXT, status TEXT NOT NULL,
  problem TEXT, passing INTEGER NOT NULL DEFAULT 0, role TEXT, verifier TEXT, fingerprint TEXT,
  family TEXT, voice TEXT, parameters INTEGER, nbytes INTEGER, architecture TEXT, context INTEGER,
  downloads INTEGER, likes INTEGER, facts TEXT, since INTEGER NOT NULL, scan INTEGER NOT NULL
) WITHOUT ROWID;
-- What only two vocabularies side by side tell; for pairs whose fingerprints differ.
CREATE TABLE notes (
  target TEXT NOT NULL, draft TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (target, draft)
) WITHOUT ROWID;
CREATE TABLE verdicts (
  target TEXT NOT NULL, draft TEXT NOT NULL, asked TEXT NOT NULL, slot TEXT NOT NULL,
  engine TEXT NOT NULL, version TEXT NOT NULL, version_checked INTEGER NOT NULL, method TEXT,
  reaction TEXT NOT NULL, verdict TEXT NOT NULL, decided_by TEXT, basis TEXT, relation TEXT,
  findings TEXT NOT NULL, passed INTEGER NOT NULL, setup TEXT, memory TEXT, notes TEXT NOT NULL,
  rules TEXT NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY (target, draft, asked, slot)
) WITHOUT ROWID;
-- What the verdicts of a pair were made from: while it stays the same, so do they.
CREATE TABLE pairs (
  target TEXT NOT NULL, draft TEXT NOT NULL, basis TEXT NOT NULL, target_facts TEXT NOT NULL,
  draft_facts TEXT NOT NULL, settings TEXT NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY (target, draft)
) WITHOUT ROWID;
CREATE TABLE trials (
  target TEXT NOT NULL, draft TEXT NOT NULL, key TEXT NOT NULL, target_revision TEXT,
  draft_revision TEXT, backend TEXT NOT NULL, state TEXT NOT NULL, problem TEXT,
  body TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (target, draft, key)
) WITHOUT ROWID;
CREATE TABLE changes (
  scan INTEGER NOT NULL, target TEXT NOT NULL, draft TEXT NOT NULL, asked TEXT NOT NULL,
  slot TEXT NOT NULL, kind TEXT NOT NULL, engine TEXT NOT NULL, version TEXT NOT NULL,
  method TEXT, before TEXT, after TEXT, cause TEXT NOT NULL, why TEXT NOT NULL,
  PRIMARY KEY (scan, target, draft, asked, slot)
) WITHOUT ROWID;
"""

SECOND = """
-- How far the Hub's list was walked, for each question; see hub_list.py.
CREATE TABLE walks (
  question TEXT PRIMARY KEY, scan INTEGER NOT NULL, listed INTEGER NOT NULL, following TEXT,
  newest TEXT, until TEXT, known TEXT, whole INTEGER
) WITHOUT ROWID;
-- One row: since which scan a repo must have been seen to be there now, and what the repos that
-- were turned away were held against.
CREATE TABLE standing (
  one INTEGER PRIMARY KEY CHECK (one = 1), base INTEGER NOT NULL, by_listing TEXT, by_digest TEXT
);
INSERT INTO standing (one, base) SELECT 1, number FROM scans ORDER BY number DESC LIMIT 1;
DROP INDEX repos_seen;
-- Few of many: a night must not read those that were turned away before.
CREATE INDEX repos_open ON repos (name) WHERE coalesce(stage, '') NOT IN ('listing', 'digest');
CREATE INDEX pairs_since ON pairs (target, since);
"""
OPEN = "coalesce(stage, '') NOT IN ('listing', 'digest')"
"""Repos that are no longer, or not yet, turned away: the condition of the index repos_open."""

STEPS: tuple[str, ...] = (FIRST, SECOND)
