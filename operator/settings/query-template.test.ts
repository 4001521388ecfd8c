import { describe, expect, test } from 'vitest';
import { readQueryTemplate, type TemplateSegment } from './query-template.ts';

function segments(template: string): readonly TemplateSegment[] {
  const outcome = readQueryTemplate(template);
  if (outcome.kind === 'problem') throw new Error(`${outcome.what}: ${outcome.input}`);
  return outcome.segments;
}

/** Where each placeholder was found to stand. */
function places(template: string): readonly string[] {
  return segments(template).flatMap((segment) =>
    segment.kind === 'placeholder' ? [`${segment.name} ${segment.place} ${segment.quote}`] : [],
  );
}

describe('a placeholder is escaped for where it stands', () => {
  test.each([
    ['x{n="{{namespace}}"}', ['namespace string "']],
    [`x{n='{{ tenant }}'}`, [`tenant string '`]],
    ['x{n=`{{tenant}}`}', ['tenant string "']],
    ['x{n=~"{{vcluster}}-.*",m!~ "{{project}}"}', ['vcluster regex "', 'project regex "']],
    ['x{n=~"a",m="{{project}}"}', ['project string "']],
    [
      'rate(x{n="\\"{{instance}}"}[{{window}}]) * {{window_seconds}}',
      ['instance string "', 'window bare "', 'window_seconds bare "'],
    ],
    [
      'label_replace(x{a="{{tenant}}"}, "{{tenant}}", "{{tenant}}", "b", "{{tenant}}")',
      ['tenant string "', 'tenant string "', 'tenant replacement "', 'tenant regex "'],
    ],
    [
      'label_replace(sum by (a, b) (x{c="d",e="f"}), "g", "{{tenant}}", "b", "(.*)")',
      ['tenant replacement "'],
    ],
    ['x # it\'s {{window}} "\n + y{n="{{tenant}}"}', ['window bare "', 'tenant string "']],
  ])('%s', (template, expected) => {
    expect(places(template)).toEqual(expected);
  });
});

test('what stands in backticks is not read as escapes once it stands in double quotes', () => {
  const text = segments('x{n=~`\\d+"{{tenant}}\n`,m=`\\d`}')
    .map((segment) => (segment.kind === 'text' ? segment.text : `<${segment.name}>`))
    .join('');
  expect(text).toBe('x{n=~"\\\\d+\\"<tenant>\\u000a",m=`\\d`}');
});

describe('a query that a tenant’s name could reach beyond its quotes in is refused', () => {
  test.each([
    ['x{n={{namespace}}}', 'placeholder outside a string', '{{namespace}}'],
    ['x{{{tenant}}="1"}', 'placeholder outside a string', '{{tenant}}'],
    ['x # {{tenant}}', 'placeholder outside a string', '{{tenant}}'],
    ['x # "\n{n={{tenant}},m="}"}', 'placeholder outside a string', '{{tenant}}'],
    ['x{n="{{nmspace}}"}', 'unknown placeholder', '{{nmspace}}'],
    ['x[{{windows}}]', 'unknown placeholder', '{{windows}}'],
    ['x{n="{{tenant}}', 'an open quote', '"'],
    ['x{n="a\n{{tenant}}"}', 'an open quote', '"'],
    [`x{n='{{tenant}}\\'}`, 'an open quote', `'`],
  ])('%s', (template, what, input) => {
    expect(readQueryTemplate(template)).toMatchObject({ kind: 'problem', what, input });
  });
});

test('a template without placeholders is left as it is', () => {
  for (const template of ['none', 'sum(rate({"a.b"}[5m])) # `"', "x{a='\"',b=`'`}"]) {
    expect(segments(template)).toEqual([{ kind: 'text', text: template }]);
  }
});
