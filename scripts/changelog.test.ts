import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

/** https://keepachangelog.com/en/1.1.0/ */
const KINDS = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'];
const VERSION = /^\[(Unreleased\]|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d)$/;

const text = readFileSync(join(import.meta.dirname, '../CHANGELOG.md'), 'utf8');
const [, ...versions] = text.split(/^## /m);

test('a version is named in another form than the release looks for', () => {
  const names = versions.map((version) => version.split('\n', 1)[0] ?? '');
  expect(names[0]).toBe('[Unreleased]');
  expect(names.filter((name) => !VERSION.test(name))).toEqual([]);
});

test('what changed has no kind, a kind of its own, or one that is there twice or empty', () => {
  for (const version of versions) {
    const [before = '', ...sections] = version.split(/^### /m);
    expect(before.split('\n').slice(1).join('').trim()).toBe('');
    const kinds = sections.map((section) => section.split('\n', 1)[0] ?? '');
    expect(kinds).toEqual(KINDS.filter((kind) => kinds.includes(kind)));
    for (const section of sections) {
      const lines = section
        .split('\n')
        .slice(1)
        .filter((line) => line !== '');
      expect(lines.length).toBeGreaterThan(0);
      expect(lines.filter((line) => !/^(- |  )\S/.test(line))).toEqual([]);
    }
  }
});

test('what needs a hand is read too late', () => {
  for (const version of versions) {
    const [changed = ''] = /^### Changed$[\s\S]*?(?=^### |(?![\s\S]))/m.exec(version) ?? [];
    const items = changed.split(/^- /m).slice(1);
    const hands = items.map((item) => item.startsWith('**Needs a hand:**'));
    expect(hands).toEqual(hands.toSorted((a, b) => Number(b) - Number(a)));
  }
});

test('the first release lists what changed against states that nobody released, or fills more than a page', () => {
  const first = versions.at(-1) ?? '';
  expect([...first.matchAll(/^### (.*)$/gm)].map(([, kind]) => kind)).toEqual(['Added']);
  expect(first.split('\n').length).toBeLessThanOrEqual(60);
});
