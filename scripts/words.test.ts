import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { documentationPages, readPage } from './prose.ts';
import { namesIn, textsIn, wordsOfName } from './words.ts';

const ROOT = join(import.meta.dirname, '..');

/**
 * Words that meant several things here, or that nobody else in this field uses, and what stands in their place
 * (docs/reference/glossary.md). `hold`, `keep`, `part`, `piece`, `rest`, `round`, `say` and `credit` are plain or standard words
 * in some places and private ones in others, which no list can tell: readers watch those.
 */
const INSTEAD: Readonly<Record<string, string>> = {
  hear: 'receive',
  hears: 'receives',
  heard: 'received',
  tell: 'report',
  tells: 'reports',
  told: 'reported',
  untold: 'unreported',
  heed: 'apply',
  ask: 'query',
  asks: 'queries',
  asked: 'requested',
  asking: 'querying',
  said: 'stated',
  keeper: 'store, controller',
  verdict: 'decision',
  judge: 'evaluate',
  judged: 'evaluated',
  docket: 'queue',
  agenda: 'timers',
  gate: 'limiter, guard',
  standing: 'state',
  grounds: 'causes',
  apart: 'separate',
  anew: 'again',
  replacesEarlier: 'again',
  outlook: 'prediction',
  doubtful: 'uncertain',
  believe: 'trust',
  believed: 'trusted',
  unsure: 'uncertain',
  farewell: 'departure',
  findings: 'diagnostics',
  amiss: 'wrong',
  mend: 'fix',
  mended: 'fixed',
};

/** Names that keep such a word, each with its reason. */
const ALLOWED: Readonly<Record<string, string>> = {
  'starting_on and ending_before must be UTC midnights, at least a day apart':
    'an answer of the Metronome API',
  'ask the provider for the reason': 'tenants do ask a person',
  'Give a reason: readers of the bill will ask.': 'readers do ask a person',
};

const files = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
  .split('\n')
  .filter((file) => existsSync(join(ROOT, file)));
/** File and text of each source. */
const sources = files
  .filter(
    (file) =>
      /^(?:operator|plugin|scripts|e2e)\/.*\.(?:ts|js)$/.test(file) &&
      !/\.generated\.|\/vendor\/|^scripts\/words/.test(file),
  )
  .map((file) => [file, readFileSync(join(ROOT, file), 'utf8')] as const);

const shipped = sources.filter(([file]) => !/^e2e\/|\.test\.|\/testing\//.test(file));
function privateWord(words: readonly string[]): string | undefined {
  const found = words.find((word) => Object.hasOwn(INSTEAD, word));
  return found && `${found} (say ${INSTEAD[found]})`;
}

test('a name has a private word', () => {
  expect(shipped.length).toBeGreaterThan(500);
  const found = sources.flatMap(([file, source]) =>
    [...namesIn(source)].flatMap((name) => {
      const word = Object.hasOwn(ALLOWED, name) ? undefined : privateWord(wordsOfName(name));
      return word === undefined ? [] : [`${file}: ${name}: ${word}`];
    }),
  );
  expect(found).toStrictEqual([]);
});

test('an exported type has the name of another type', () => {
  const names = shipped
    .filter(([file]) => file.startsWith('operator/'))
    .flatMap(([, source]) => [
      ...source.matchAll(/^(export )?(?:abstract )?(?:interface|type|class) (\w+)/gm),
    ]);
  const counts = Map.groupBy(names, ([, , name = '']) => name);
  const twice = [...counts].filter(
    ([, all]) => all.length > 1 && all.some(([, exported]) => exported),
  );
  expect(twice.map(([name]) => name)).toStrictEqual([]);
});

test('a file has a private word in its name', () => {
  const found = files.flatMap((file) => {
    const word = privateWord(wordsOfName(file));
    return word === undefined || Object.hasOwn(ALLOWED, file) ? [] : [`${file}: ${word}`];
  });
  expect(found).toStrictEqual([]);
});

test('a heading of the documentation has a private word', () => {
  const found = documentationPages().flatMap((page) =>
    [...readPage(page).matchAll(/^#+ (.*)$/gm)].flatMap(([, heading = '']) => {
      const word = privateWord(wordsOfName(heading));
      return word === undefined ? [] : [`${page}: ${heading}: ${word}`];
    }),
  );
  expect(found).toStrictEqual([]);
});

test('a text or the title of a test has a private word', () => {
  const found = sources.flatMap(([file, source]) =>
    textsIn(source).flatMap((text) => {
      const word = privateWord(text.toLowerCase().split(/[^a-z-]+/));
      return word === undefined || Object.hasOwn(ALLOWED, text)
        ? []
        : [`${file}: ${text}: ${word}`];
    }),
  );
  expect(found).toStrictEqual([]);
});

test('an allowance is left over', () => {
  const used = new Set(sources.flatMap(([, source]) => [...namesIn(source), ...textsIn(source)]));
  expect(
    Object.keys(ALLOWED).filter((name) => !used.has(name) && !files.includes(name)),
  ).toStrictEqual([]);
});

test('a comment is longer than a line of 100 columns', () => {
  const found = sources
    .filter(([file]) => /^(?:operator|plugin)\//.test(file))
    .flatMap(([file, source]) =>
      source
        .split('\n')
        .flatMap((line, index) =>
          line.length > 100 && /^\s*(?:\*|\/\*|\/\/)/.test(line) && !/https?:\/\//.test(line)
            ? [`${file}:${index + 1}`]
            : [],
        ),
    );
  expect(found).toStrictEqual([]);
});
