import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Pages in the repository, tracked or new. */
const pages = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'],
  { cwd: ROOT, encoding: 'utf8' },
)
  .split('\n')
  .filter((page) => page !== '' && existsSync(join(ROOT, page)));

function read(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** The text without code. */
function prose(page: string): string {
  return read(page)
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .replaceAll(/`[^`\n]*`/g, '');
}

/** Anchors of a page's headings on a code host. */
function anchors(page: string): ReadonlySet<string> {
  const headings = read(page)
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .matchAll(/^#+ (.*)$/gm);
  const seen = new Map<string, number>();
  const slugs = [...headings].map(([, heading = '']) => {
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = text
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-');
    const before = seen.get(slug) ?? 0;
    seen.set(slug, before + 1);
    return before === 0 ? slug : `${slug}-${before}`;
  });
  const explicit = [...read(page).matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id);
  return new Set([...slugs, ...explicit]);
}

/** Links from a page to files of this repository: target and anchor. */
function links(page: string): readonly (readonly [target: string, anchor: string])[] {
  return [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [path = '', anchor = ''] = link.split('#');
      const target = path === '' ? join(ROOT, page) : resolve(ROOT, dirname(page), path);
      return [relative(ROOT, target), anchor] as const;
    });
}

test.each(pages)('%s: a link leads nowhere', (page) => {
  const broken = links(page).filter(([target, anchor]) => {
    if (!existsSync(join(ROOT, target))) return true;
    return anchor !== '' && !(target.endsWith('.md') && anchors(target).has(anchor));
  });
  expect(broken).toStrictEqual([]);
});

test('a chapter is not in the contents', () => {
  const contents = new Set(links('docs/README.md').map(([target]) => target));
  const chapters = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
  expect(chapters.length).toBeGreaterThan(10);
  expect(chapters.filter((page) => !contents.has(page))).toStrictEqual([]);
  const directories = [...contents].filter((target) => statSync(join(ROOT, target)).isDirectory());
  expect(directories).toStrictEqual([]);
});

test('a chapter does not say whom it is for', () => {
  const chapters = pages.filter((page) => /^docs\/(?!explanation\/adr\/)/.test(page));
  const silent = chapters.filter((page) => {
    const [, opening = ''] = read(page).split(/^# .*$/m);
    return !/\bFor (whoever|those|operators)\b/.test(opening.slice(0, 300));
  });
  expect(silent).toStrictEqual([]);
});

test('a path in the pages is none of the repository', () => {
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/`((?:config|crds|operator|e2e|scripts|docs)\/[\w./-]+)`/g)].map(
      ([, path = '']) => [page, path] as const,
    ),
  );
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter(([, path]) => !existsSync(join(ROOT, path)))).toStrictEqual([]);
});

/** All handwritten files of the repository except pages. */
const sources = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(ts|js|css|html|ya?ml|sh)$|(^|\/)(Makefile|Dockerfile|run)$/.test(file))
  .filter((file) => existsSync(join(ROOT, file)) && !file.includes('/vendor/'))
  // This file contains an example of a citation.
  .filter((file) => file !== 'scripts/docs.test.ts');

/** `docs/page.md#anchor`, as comments and messages cite it. */
function citations(file: string): readonly (readonly [page: string, anchor: string])[] {
  return [...read(file).matchAll(/\b(docs\/[\w/-]+\.md|SECURITY\.md)(?:#([\w-]+))?/g)].map(
    ([, page = '', anchor = '']) => [page, anchor],
  );
}

test('a comment cites a page or a heading that is not there', () => {
  const cited = sources.flatMap((file) =>
    citations(file).map(([page, anchor]) => ({ file, page, anchor })),
  );
  expect(cited.length).toBeGreaterThan(100);
  const broken = cited.filter(
    ({ page, anchor }) =>
      !existsSync(join(ROOT, page)) || (anchor !== '' && !anchors(page).has(anchor)),
  );
  expect(broken).toStrictEqual([]);
});

/** Internal documents of the authors. Their numbers mean nothing to a reader. */
const ELSEWHERE =
  /\b(?:design|spec|specification|facts|security)[ ,:]+[A-Z]?\.?\d|\bfacts\/[a-z]|\bfacts: [a-z]/;

test('a comment cites a document that is not in the repository', () => {
  expect(ELSEWHERE.test('a rule (design 7)')).toBe(true);
  const found = sources.flatMap((file) =>
    read(file)
      .split('\n')
      .flatMap((line, index) => (ELSEWHERE.test(line) ? [`${file}:${index + 1}: ${line}`] : [])),
  );
  expect(found).toStrictEqual([]);
});
