import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonShape } from './json-shape.ts';

/** Counts by walking the parsed value. */
function walked(value: unknown): { values: number; depth: number } {
  if (typeof value !== 'object' || value === null) return { values: 1, depth: 0 };
  const parts = Object.values(value).map(walked);
  return {
    values: 1 + parts.reduce((sum, part) => sum + part.values, 0),
    depth: 1 + Math.max(0, ...parts.map((part) => part.depth)),
  };
}

test('neither brackets in texts nor escaped quotes hide how deep a text is, or make it deep', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.boolean(), (value, spaced) => {
      const text = JSON.stringify(value, undefined, spaced ? 2 : 0);
      const { values, depth } = walked(JSON.parse(text));
      const shape = jsonShape(text);
      expect(shape.depth).toBe(depth);
      expect(shape.values).toBeGreaterThanOrEqual(values);
      expect(shape.values).toBeLessThanOrEqual(2 * values);
    }),
  );
  expect(jsonShape(String.raw`["\\","\"[[[",{"a\\\"{":[1,2]}]`)).toStrictEqual({
    values: 7,
    depth: 3,
  });
});
