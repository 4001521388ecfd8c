import { BUILT_IN_METRICS, type CustomMetric } from '../../model/catalog.ts';
import { RESERVED_KEYS } from '../../model/event-schema.ts';
import { isRecord } from '../../model/is-record.ts';
import { fieldItems } from './lists.ts';
import { invalid, type Parsed, type Parser, valid } from './parser.ts';
import { text } from './scalars.ts';

const CODE = /^[a-z][a-z0-9_]{0,99}$/;
const KEY = /^[a-z][a-z0-9_]{0,63}$/;
const MOST_KEYS = 16;
const FIX = 'write code:unit or code:unit:key|key';

const UNIT = text(64);
const BUILT_IN = new Set(BUILT_IN_METRICS.map((metric) => metric.code));
const RESERVED = new Set<string>(RESERVED_KEYS);

/**
 * `code:unit[:key|key],...`; in a field a list of `code`, `unit` and `dimensions`. Refuses the
 * code of a built-in metric.
 */
export function customMetrics(): Parser<readonly CustomMetric[]> {
  return {
    accepts: 'list of `code:unit[:key\\|key]`',
    parse(input) {
      if (input === 'none') return valid([]);
      const metrics: CustomMetric[] = [];
      for (const item of input.split(',').map((part) => part.trim())) {
        const metric = parseMetric(item);
        if (metric.kind === 'problem') return { ...metric, input: item };
        if (metrics.some((other) => other.code === metric.value.code)) {
          return invalid('declared twice', 'declare each code once', metric.value.code);
        }
        metrics.push(metric.value);
      }
      return valid(metrics);
    },
    field: (value) => fieldItems(value, FIELD_METRIC),
  };
}

const FIELD_METRIC: Parser<CustomMetric> = {
  accepts: '',
  parse: (text) => ({ ...invalid('not a metric', 'give code and unit'), input: text }),
  field(value) {
    if (!isRecord(value)) return this.parse(String(value));
    const code = String(value['code']);
    const dimensions = [value['dimensions'] ?? []].flat().map(String);
    const metric = checked({ code, unit: String(value['unit']), dimensions });
    return metric.kind === 'problem' ? { ...metric, input: code } : metric;
  },
};

function parseMetric(item: string): Parsed<CustomMetric> {
  const [code = '', unit = '', keys, ...rest] = item.split(':').map((part) => part.trim());
  if (rest.length > 0) return invalid('more than three parts', FIX);
  const dimensions = keys === undefined ? [] : keys.split('|').map((key) => key.trim());
  return checked({ code, unit, dimensions });
}

function checked({ code, unit, dimensions }: CustomMetric): Parsed<CustomMetric> {
  if (!CODE.test(code)) {
    return invalid(
      'not a metric code',
      'begin with a small letter; use a-z, 0-9 and _, at most 100',
    );
  }
  if (BUILT_IN.has(code)) return invalid('a built-in metric', 'choose another code');
  if (unit === '') return invalid('no unit', FIX);
  const parsedUnit = UNIT.parse(unit);
  if (parsedUnit.kind === 'problem') return parsedUnit;
  const bad = dimensions.find((key) => !KEY.test(key) || RESERVED.has(key));
  if (bad !== undefined) {
    return invalid('a key that cannot be used', 'use a-z, 0-9 and _, and no field of the event');
  }
  if (new Set(dimensions).size < dimensions.length) return invalid('a key twice', 'name it once');
  if (dimensions.length > MOST_KEYS) return invalid('too many keys', `at most ${MOST_KEYS}`);
  return valid({ code, unit, dimensions });
}
