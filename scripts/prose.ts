import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** The participles that do not end in "ed" and are common in these pages. */
const IRREGULAR =
  'made|known|seen|given|taken|kept|held|told|read|written|shown|found|sent|put|cut|left|lost|set|built|begun|drawn|meant|said|paid|done';
const PASSIVE = new RegExp(
  String.raw`\b(?:is|are|was|were|be|been|being)\s+(?:\w+ly\s+)?(?:\w+ed|${IRREGULAR})\b`,
  'i',
);
/** A sentence ends at a full stop before a capital, a code span or a link. */
const SENTENCE_END = /(?<=[.!?])\s+(?=[A-Z`[])/;
const SHORTEST_WORDS = 6;
/** Tables, headings, quotes, HTML and pictures are not prose. */
const NOT_PROSE = /^\s*(?:\||#|>|<|!\[)/;
/** A list item or an empty line begins a new sentence. */
const BLOCK = /\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)/;

/** The sentences of a page, without code blocks, tables and headings. */
export function sentencesOf(page: string): readonly string[] {
  return withoutCode(page)
    .split('\n')
    .filter((line) => !NOT_PROSE.test(line))
    .join('\n')
    .split(BLOCK)
    .flatMap((block) => block.replaceAll(/\s+/g, ' ').trim().split(SENTENCE_END))
    .map((sentence) => sentence.replace(/^(?:[-*]|\d+\.)\s+/, ''))
    .filter((sentence) => wordsOf(sentence) >= SHORTEST_WORDS);
}

/** A page without its blocks of code. */
export function withoutCode(page: string): string {
  return page.replaceAll(/```[\s\S]*?```/g, '');
}

/** How many words a text has; the lines of tables are none. */
export function wordsOf(text: string): number {
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** What a page asks of its reader. `words` counts the prose; `passive` is a share of the sentences. */
export interface Prose {
  readonly words: number;
  readonly sentences: number;
  readonly long: readonly string[];
  readonly passive: number;
  readonly commas: number;
}

/** Measures sentences; `longest` is the number of words above which a sentence is listed in `long`. */
export function proseOf(sentences: readonly string[], longest = 35): Prose {
  const count = Math.max(1, sentences.length);
  return {
    words: sentences.reduce((sum, sentence) => sum + wordsOf(sentence), 0),
    sentences: sentences.length,
    long: sentences.filter((sentence) => wordsOf(sentence) > longest),
    passive: sentences.filter((sentence) => PASSIVE.test(sentence)).length / count,
    commas: sentences.reduce((sum, text) => sum + text.split(',').length - 1, 0) / count,
  };
}

/** The pages of the documentation, by path from the root: README.md and docs/. */
export function documentationPages(): readonly string[] {
  return execFileSync('git', ['ls-files', 'README.md', 'docs/**/*.md', 'docs/*.md'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((page) => page !== '');
}

export function readPage(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** `scripts/node scripts/prose.ts [PAGE…]` prints a line for each page, its long sentences, and the sum. */
if (import.meta.main) {
  const named = process.argv.slice(2);
  const all = (named.length > 0 ? named : documentationPages()).map(
    (page) => [page, sentencesOf(readPage(page))] as const,
  );
  const row = (name: string, prose: Prose): string =>
    [
      String(prose.words).padStart(6),
      `${(prose.words / Math.max(1, prose.sentences)).toFixed(1).padStart(5)} a sentence`,
      `${String(prose.long.length).padStart(3)} long`,
      `${(100 * prose.passive).toFixed(0).padStart(3)} % passive`,
      `${prose.commas.toFixed(2)} commas`,
      name,
    ].join('  ');
  for (const [page, sentences] of all) {
    const prose = proseOf(sentences);
    console.log(row(page, prose));
    if (named.length > 0) for (const sentence of prose.long) console.log(`        ${sentence}`);
  }
  console.log(row('in all', proseOf(all.flatMap(([, sentences]) => sentences))));
}
