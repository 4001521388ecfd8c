import { describe, expect, test } from 'vitest';
import {
  documentationPages,
  proseOf,
  readPage,
  sentencesOf,
  withoutCode,
  wordsOf,
} from './prose.ts';

/** All pages together may have this many words: tables count, what is shown as code does not. */
const MOST_WORDS = 49_500;
/** Records of measurements, and a generated list that nobody reads through. */
const UNCOUNTED = /^docs\/(?:measurements\/|reference\/licences\.md$)/;

const pages = documentationPages();
const sentences = new Map(pages.map((page) => [page, sentencesOf(readPage(page))]));

describe('the documentation', () => {
  test('a sentence has more than 35 words', () => {
    expect(pages.length).toBeGreaterThan(30);
    const long = [...sentences].flatMap(([page, all]) =>
      proseOf(all, 35).long.map((sentence) => `${page}: ${sentence}`),
    );
    expect(long).toStrictEqual([]);
  });

  test('is longer than anybody reads', () => {
    const counted = pages.filter((page) => !UNCOUNTED.test(page));
    const words = counted.map((page) => [page, wordsOf(withoutCode(readPage(page)))] as const);
    const sum = words.reduce((all, [, count]) => all + count, 0);
    expect(sum, longestFirst(words)).toBeLessThanOrEqual(MOST_WORDS);
  });

  test('hides who does what, or puts clause inside clause', () => {
    const { passive, commas } = proseOf([...sentences.values()].flat());
    const shares = [...sentences].map(
      ([page, all]) => [page, Math.round(100 * proseOf(all).passive)] as const,
    );
    expect(passive, longestFirst(shares)).toBeLessThanOrEqual(0.2);
    expect(commas).toBeLessThanOrEqual(0.6);
  });

  test('greets a stranger with sentences that take two readings', () => {
    const readme = sentences.get('README.md') ?? [];
    const { words, long } = proseOf(readme, 25);
    expect(long).toStrictEqual([]);
    expect(words / readme.length).toBeLessThanOrEqual(15);
  });
});

describe('measuring prose', () => {
  test('takes code, tables, headings and pictures for sentences', () => {
    const page = [
      '# A heading that has more than six words in it',
      '| a | table | with | more | than | six | words |',
      '![a picture with more than six words](a.png)',
      '```sh\nrun this command with very many words now\n```',
      '- The first item is a sentence of its own.',
      '- The second item is another one. `code` begins the third sentence of them.',
    ].join('\n');
    expect(sentencesOf(page)).toStrictEqual([
      'The first item is a sentence of its own.',
      'The second item is another one.',
      '`code` begins the third sentence of them.',
    ]);
  });

  test('overlooks a passive sentence, a comma or a long one', () => {
    const { passive, commas, long, words } = proseOf(
      ['The event was sent by the feed.', 'The feed sends, retries, and then gives up.'],
      7,
    );
    expect(passive).toBe(0.5);
    expect(commas).toBe(1);
    expect(long).toStrictEqual(['The feed sends, retries, and then gives up.']);
    expect(words).toBe(15);
  });
});

/** The ten pages with the largest figures, as a hint what to shorten. */
function longestFirst(figures: readonly (readonly [page: string, figure: number])[]): string {
  return figures
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, 10)
    .map(([page, figure]) => `${figure} ${page}`)
    .join('\n');
}
