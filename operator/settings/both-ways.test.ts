import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { variables } from './table/table.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Variables that a custom resource sets as well, with the paths of its fields:
 * `spec.customMetrics`.
 */
const SETTABLE = variables([]).flatMap(([name, { fields = [] }]) => {
  const paths = fields.flatMap((field) => / (spec\S*)/.exec(field)?.[1] ?? []);
  return paths.length === 0 ? [] : [{ name, paths }];
});

/** What comes before a variable where a text says what to do, and not only what is so. */
const DOING = '\\b(?:set|declare|list|lengthen|shorten|raise|lower|use|change|choose|check)\\b';

const FILES = globSync('operator/**/*.ts', { cwd: ROOT }).filter(
  (file) =>
    !/\.test\.ts$|\/testing\/|\.generated\.ts$/.test(file) &&
    // Where variables are described, and their own problems told, the field stands in a column of
    // its own.
    !file.startsWith('operator/settings/'),
);

/** Texts for people in a source: literals with a space in them, without comments. */
function texts(source: string): readonly string[] {
  const code = source.replaceAll(/^\s*(?:\/\*\*?|\*|\/\/).*$/gm, '');
  return [...code.matchAll(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g)]
    .map(([literal]) => literal)
    .filter((literal) => literal.includes(' '));
}

test('a text sends people to a variable although they set the same in a custom resource', () => {
  expect(SETTABLE.length).toBeGreaterThan(30);
  const found = FILES.flatMap((file) =>
    texts(readFileSync(`${ROOT}${file}`, 'utf8')).flatMap((text) =>
      SETTABLE.filter(({ name }) => new RegExp(`${DOING}[^:;]*\\b${name}\\b`).test(text))
        .filter(({ paths }) => !paths.some((path) => text.includes(path)))
        .map(({ name, paths }) => `${file}: ${name} without ${paths.join(' or ')}: ${text}`),
    ),
  );
  expect(found).toStrictEqual([]);
});
