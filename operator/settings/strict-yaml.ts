import {
  type Node,
  type ParsedNode,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
} from 'yaml';

/**
 * YAML of a settings file or a kubeconfig: maps, lists and text. Numbers and booleans stay text, so
 * a token of digits does not change. Lines count from 1.
 */
export type YamlNode = YamlText | YamlList | YamlMap;

export interface YamlText {
  readonly kind: 'text';
  /** `''` for an empty value. */
  readonly text: string;
  readonly line: number;
}

export interface YamlList {
  readonly kind: 'list';
  readonly items: readonly YamlNode[];
  readonly line: number;
}

export interface YamlMap {
  readonly kind: 'map';
  readonly entries: ReadonlyMap<string, YamlNode>;
  readonly line: number;
}

export type StrictYaml =
  | { readonly kind: 'document'; readonly root: YamlNode }
  /** `line 3: an alias; write the value out`. Never quotes content, which may be secret. */
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

const DEEPEST = 32;
const WIDEST_INDENT = 64;
/** Block indicators at the beginning of one line. `- - x` has two and nests two levels. */
const MOST_INDICATORS = 8;
const MOST_EXPLICIT_KEYS = 64;
const MOST_PROBLEMS = 20;

/**
 * Reads one untrusted YAML document. Refuses aliases, anchors, tags, merge keys and duplicate keys.
 * Checks size and nesting before parsing, because parsing time grows with the square of the depth
 * (docs/explanation/security.md#d-21).
 */
export function readStrictYaml(text: string, mostBytes: number): StrictYaml {
  const bytes = Buffer.byteLength(text);
  if (bytes > mostBytes) return invalid([`too large: ${bytes} bytes; at most ${mostBytes}`]);
  const shape = shapeProblem(text);
  if (shape !== undefined) return invalid([shape]);
  const lines = new LineCounter();
  const document = parseDocument(text, {
    schema: 'failsafe',
    strict: true,
    // Checked below in linear time; the parser needs quadratic time.
    uniqueKeys: false,
    lineCounter: lines,
    logLevel: 'error',
    prettyErrors: false,
  });
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) {
    return invalid(
      faults.map(({ pos, code }) => `line ${lines.linePos(pos[0]).line}: not valid YAML: ${code}`),
    );
  }
  const problems: string[] = [];
  const lineOf = (node: Node | null): number =>
    node?.range ? Math.max(1, lines.linePos(node.range[0]).line) : 1;
  const root = convert(document.contents, { lineOf, problems, parentLine: 1, depth: 0 });
  return problems.length > 0 ? invalid(problems) : { kind: 'document', root };
}

function invalid(problems: readonly string[]): StrictYaml {
  return { kind: 'invalid', problems: problems.slice(0, MOST_PROBLEMS) };
}

/** The first line that nests too deeply for the parser. */
function shapeProblem(text: string): string | undefined {
  let brackets = 0;
  let explicitKeys = 0;
  for (const [index, line] of text.split('\n').entries()) {
    const start = /^[ \t]*/.exec(line)?.[0].length ?? 0;
    const indicators = /^(?:[-?:](?:[ \t]+|$))*/.exec(line.slice(start))?.[0] ?? '';
    brackets += count(line, /[[{]/g) - count(line, /[\]}]/g);
    explicitKeys += count(line, /\?(?=\s|$)/g);
    const tooDeep =
      start > WIDEST_INDENT ||
      count(indicators, /[-?:]/g) > MOST_INDICATORS ||
      // The depth within one line may be greater than at its end, so its longest run is checked
      // too.
      brackets > DEEPEST ||
      longestOpening(line) > DEEPEST ||
      explicitKeys > MOST_EXPLICIT_KEYS;
    if (tooDeep) return `line ${index + 1}: nested too deeply`;
  }
  return undefined;
}

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}

/** The deepest bracket nesting within one line. */
function longestOpening(line: string): number {
  let depth = 0;
  let deepest = 0;
  for (const character of line) {
    if (character === '[' || character === '{') depth += 1;
    else if (character === ']' || character === '}') depth -= 1;
    if (depth > deepest) deepest = depth;
  }
  return deepest;
}

function convert(
  node: ParsedNode | Node | null,
  context: {
    readonly lineOf: (node: Node | null) => number;
    readonly problems: string[];
    readonly parentLine: number;
    readonly depth: number;
  },
): YamlNode {
  const line = node === null ? context.parentLine : context.lineOf(node);
  const refuse = (what: string): YamlText => {
    context.problems.push(`line ${line}: ${what}`);
    return { kind: 'text', text: '', line };
  };
  if (node === null) return { kind: 'text', text: '', line };
  if (context.depth > DEEPEST) return refuse('nested too deeply');
  if ('anchor' in node && node.anchor !== undefined) return refuse('an anchor; write values out');
  if (node.tag !== undefined && !isPlainTag(node.tag)) return refuse('a tag; leave it out');
  const inner = { ...context, parentLine: line, depth: context.depth + 1 };
  if (isScalar(node)) {
    return { kind: 'text', text: typeof node.value === 'string' ? node.value : '', line };
  }
  if (isSeq(node)) {
    return { kind: 'list', items: node.items.map((item) => convert(item as Node, inner)), line };
  }
  if (!isMap(node)) return refuse('an alias; write the value out');
  const entries = new Map<string, YamlNode>();
  for (const { key, value } of node.items) {
    const name = convert(key as Node | null, inner);
    if (name.kind !== 'text') return refuse('a key that is not text');
    if (name.text === '<<') return refuse('a merge key; write the fields out');
    if (entries.has(name.text)) {
      context.problems.push(`line ${name.line}: a duplicate field`);
      continue;
    }
    entries.set(name.text, convert(value as Node | null, { ...inner, parentLine: name.line }));
  }
  return { kind: 'map', entries, line };
}

/** The tags that the failsafe schema sets itself. Any other tag is in the document. */
function isPlainTag(tag: string): boolean {
  return ['tag:yaml.org,2002:map', 'tag:yaml.org,2002:seq', 'tag:yaml.org,2002:str'].includes(tag);
}
