import { INGEST_METRICS, isGeneralDimension } from '../../model/catalog.ts';
import type {
  CloudEventRule,
  QuantityRule,
  SubjectRule,
  TokenRule,
  ValuePath,
} from '../../model/cloud-event-rule.ts';
import { isRecord } from '../../model/is-record.ts';
import { GATEWAY_PRESETS } from './gateway-presets.ts';
import { fieldItems } from './lists.ts';
import { invalid, type ParseProblem, type Parser, valid } from './parser.ts';
import { text } from './scalars.ts';
import { valuePath } from './value-path.ts';

type Fields = Readonly<Record<string, unknown>>;
/** Notes a problem at a place below the field, such as `[1].tokens.input`. */
type Refuse = (at: string, problem: ParseProblem, input: unknown) => undefined;

const TOKEN_PATHS = [
  'input',
  'output',
  'cacheRead',
  'cacheWrite',
  'reasoning',
  'count',
  'kind',
] as const;
const NAMES: readonly string[] = Object.keys(GATEWAY_PRESETS);
const PRESETS: ReadonlyMap<unknown, Fields> = new Map(Object.entries(GATEWAY_PRESETS));
const TOKEN_DIMENSIONS: readonly string[] = INGEST_METRICS[1].dimensions;
const PATH = valuePath();
const SUBJECT = text(256);
const TENANT = text(128);

/**
 * The rules of `spec.ingest.cloudEvents`; as a text a list of presets. A rule of a preset has the
 * fields of the preset.
 */
export function cloudEventRules(): Parser<readonly CloudEventRule[]> {
  return {
    accepts: 'list of presets and rules',
    parse(input) {
      const presets = input.split(',').filter((name) => name !== 'none');
      return this.field?.(presets.map((preset) => ({ preset }))) ?? valid([]);
    },
    field(value) {
      if (!Array.isArray(value)) return invalid('not a list', 'write it as a list');
      const problems: ParseProblem[] = [];
      const refuse: Refuse = (at, problem, input) => {
        const shown = problem.input ?? (typeof input === 'string' ? input : JSON.stringify(input));
        problems.push({ ...problem, at, input: shown ?? '' });
        return undefined;
      };
      const rules = value.map((rule: unknown, index) => readRule(rule, `[${index}]`, refuse));
      for (const [index, { type }] of rules.entries()) {
        if (rules.findIndex((rule) => rule.type === type) === index) continue;
        refuse(`[${index}].type`, invalid('used twice', 'give each type one rule'), type);
      }
      return problems[0] ?? valid(rules);
    },
  };
}

/** The rules that are in force without `spec.ingest.cloudEvents`: all presets. */
export function presetRules(): readonly CloudEventRule[] {
  return NAMES.map((preset) => readRule({ preset }, '', () => undefined));
}

function readRule(spec: unknown, at: string, refuse: Refuse): CloudEventRule {
  const given = isRecord(spec) ? spec : {};
  const { preset } = given;
  if (preset !== undefined && !PRESETS.has(preset)) {
    refuse(`${at}.preset`, invalid('not a preset', `use ${NAMES.join(', ')}`), preset);
  }
  const fields = { ...PRESETS.get(preset), ...given };
  const { type, tokens, metrics, subject, subjectPrefix, ignoreSubjects = [] } = fields;
  if (tokens === undefined && metrics === undefined) {
    refuse(at, invalid('counts nothing', 'give a preset, or a type with tokens or metrics'), spec);
  }
  return {
    type: textAt(SUBJECT, `${at}.type`, type, refuse) ?? '',
    subject: subject === undefined ? undefined : pathAt(`${at}.subject`, subject, refuse),
    subjectPrefix: typeof subjectPrefix === 'string' ? subjectPrefix : undefined,
    ignoredSubjects: [ignoreSubjects].flat().map(String),
    tokens: tokens === undefined ? undefined : readTokens(tokens, `${at}.tokens`, refuse),
    metrics: [metrics ?? []]
      .flat()
      .map((metric, index) => readQuantity(metric, `${at}.metrics[${index}]`, refuse)),
  };
}

function readTokens(spec: unknown, at: string, refuse: Refuse): TokenRule {
  const fields = isRecord(spec) ? spec : {};
  const has = (name: string): boolean => fields[name] !== undefined;
  const fail = (what: string, fix: string): undefined => refuse(at, invalid(what, fix), spec);
  if ((has('input') || has('output')) === has('count')) {
    fail('no tokens, or twice', 'give input and output, or count and kind');
  }
  if (has('count') !== has('kind')) fail('one of count and kind', 'give both');
  if (has('count') && (has('cacheRead') || has('cacheWrite') || has('reasoning'))) {
    fail('more beside count', 'leave out cacheRead, cacheWrite and reasoning');
  }
  const isCached = has('cacheRead') || has('cacheWrite');
  if (isCached && !has('input')) fail('cached tokens without input', 'give input');
  if (has('reasoning') && !has('output')) fail('reasoning without output', 'give output');
  if (isCached !== has('inputIncludesCached')) {
    fail('unclear cached tokens', 'state inputIncludesCached exactly with cacheRead or cacheWrite');
  }
  if (has('reasoning') !== has('outputIncludesReasoning')) {
    fail('unclear reasoning', 'state outputIncludesReasoning exactly with reasoning');
  }
  const dimensions = dimensionsAt(`${at}.dimensions`, fields['dimensions'], refuse);
  for (const key of Object.keys(dimensions)) {
    if (TOKEN_DIMENSIONS.includes(key) || isGeneralDimension(key)) continue;
    const fix = `use one of ${TOKEN_DIMENSIONS.join(', ')}`;
    refuse(`${at}.dimensions`, invalid('no dimension of tenant_inference_tokens', fix), key);
  }
  const paths = TOKEN_PATHS.filter(has).map((name) => [
    name,
    pathAt(`${at}.${name}`, fields[name], refuse),
  ]);
  return {
    ...Object.fromEntries(paths),
    inputIncludesCached: fields['inputIncludesCached'] === true,
    outputIncludesReasoning: fields['outputIncludesReasoning'] === true,
    dimensions,
  };
}

function readQuantity(spec: unknown, at: string, refuse: Refuse): QuantityRule {
  const { metric, value, unit, dimensions } = isRecord(spec) ? spec : ({} as Fields);
  return {
    metric: textAt(SUBJECT, `${at}.metric`, metric, refuse) ?? '',
    value: value === undefined ? undefined : pathAt(`${at}.value`, value, refuse),
    unit: typeof unit === 'string' ? unit : undefined,
    dimensions: dimensionsAt(`${at}.dimensions`, dimensions, refuse),
  };
}

function dimensionsAt(
  at: string,
  value: unknown,
  refuse: Refuse,
): Readonly<Record<string, ValuePath>> {
  const entries = Object.entries(isRecord(value) ? value : {});
  return Object.fromEntries(
    entries.map(([key, path]) => [key, pathAt(`${at}.${key}`, path, refuse) ?? []]),
  );
}

function pathAt(at: string, value: unknown, refuse: Refuse): ValuePath | undefined {
  return textAt(PATH, at, value, refuse);
}

function textAt<T>(parser: Parser<T>, at: string, value: unknown, refuse: Refuse): T | undefined {
  const parsed = parser.parse(typeof value === 'string' ? value : '');
  return parsed.kind === 'value' ? parsed.value : refuse(at, parsed, value);
}

/** `subject=tenant,...`; in a field a list of `subject` and `tenant`. */
export function subjectRules(): Parser<readonly SubjectRule[]> {
  return {
    accepts: 'list of `subject=tenant`',
    parse(input) {
      const items = input === 'none' ? [] : input.split(',').map((item) => item.split('='));
      return fieldItems(
        items.map(([subject, tenant]) => ({ subject, tenant })),
        SUBJECT_RULE,
      );
    },
    field: (value) => fieldItems(value, SUBJECT_RULE),
  };
}

const SUBJECT_RULE: Parser<SubjectRule> = {
  accepts: '',
  parse: () => invalid('not a rule', 'give subject and tenant'),
  field(value) {
    const { subject, tenant }: Fields = isRecord(value) ? value : {};
    if (typeof subject !== 'string' || typeof tenant !== 'string') return this.parse('');
    for (const parsed of [SUBJECT.parse(subject), TENANT.parse(tenant)]) {
      if (parsed.kind === 'problem') return { ...parsed, input: subject };
    }
    return valid({ subject, tenant });
  },
};
