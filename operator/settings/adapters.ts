import type {
  ConfigurableDestination,
  DestinationDefaults,
  ValuesOf,
} from './configurable-destination.ts';
import { invalid, problemText } from './parsers/parser.ts';
import type { DestinationSettings } from './settings.ts';
import type { SettingTable } from './table/setting.ts';
import { spellings } from './table/billing.ts';
import { type Values, variables } from './table/table.ts';

/** The environment, parsed. */
export interface ParsedEnvironment {
  readonly values: Values;
  /** CLUSTER_NAME. */
  readonly clusterName: string;
  /** The parsed values of other variables, such as those of destination types. */
  readonly valuesOf: <S extends SettingTable>(variables: S) => ValuesOf<S>;
  /** Variables whose own problem is already reported. */
  readonly faulty: ReadonlySet<string>;
}

/**
 * The destinations of ADAPTERS, else of the deprecated ADAPTER, else the default one if its key is
 * set. A named destination without its key is a problem, unless the key is among the faulty
 * variables.
 */
export function adaptersFrom(
  parsed: ParsedEnvironment,
  types: readonly ConfigurableDestination[],
): { readonly destinations: readonly DestinationSettings[]; readonly problems: readonly string[] } {
  const { values, valuesOf, faulty } = parsed;
  const variable = values.ADAPTERS === undefined ? 'ADAPTER' : 'ADAPTERS';
  const destinations: DestinationSettings[] = [];
  const problems: string[] = [];
  for (const name of chosenNames(parsed, types)) {
    const chosen = types.find((each) => each.spellings.includes(name));
    if (chosen === undefined) {
      const fix = `use ${spellings(types)}, or none`;
      problems.push(problemText(variable, invalid('unknown destination', fix), name));
      continue;
    }
    const { type } = chosen;
    const earlier = destinations.find((destination) => destination.type === type);
    if (earlier !== undefined) {
      const twice = `"${earlier.name}" is the same destination`;
      problems.push(problemText(variable, invalid(twice, 'name it once'), name));
      continue;
    }
    const read = chosen.fromEnvironment({ spelling: name, defaults: defaultsOf(parsed), valuesOf });
    if (read.kind === 'options') {
      const { options } = read;
      const { DESTINATIONS_START_FROM: startFrom, DESTINATIONS_PLAN_CHANGE: planChange } = values;
      const { DESTINATIONS_MODE: mode } = values;
      const chosenOnes = { startFrom, planChange, mode };
      destinations.push({ name, type, suspend: false, ...chosenOnes, options });
    } else if (!faulty.has(read.variable)) {
      const isNeutral = name === chosen.spellings[0];
      const shown = isNeutral ? read.variable : ownSpelling(read.variable, types);
      problems.push(missingText(shown, name, variable));
    }
  }
  return { destinations, problems };
}

function chosenNames(
  { values, valuesOf }: ParsedEnvironment,
  types: readonly ConfigurableDestination[],
): readonly string[] {
  if (values.ADAPTERS !== undefined) return values.ADAPTERS;
  if (values.ADAPTER !== undefined) return [values.ADAPTER];
  return types
    .filter(({ defaultWithVariable: key, variables: own }) => {
      return key !== undefined && valuesOf(own)[key] !== undefined;
    })
    .map((type) => type.spellings[0]);
}

function defaultsOf({ values, clusterName }: ParsedEnvironment): DestinationDefaults {
  return {
    planCode: values.DEFAULT_PLAN_CODE,
    currency: values.BILLING_CURRENCY,
    clusterName,
  };
}

function missingText(variable: string, destination: string, listedIn: string): string {
  const fix = `set ${variable}, or take the destination out of ${listedIn}`;
  const problem = invalid('missing, and required by the destination', fix);
  return problemText(variable, problem, destination);
}

/** The billing system's own name for a variable, if it has one. */
function ownSpelling(name: string, types: readonly ConfigurableDestination[]): string {
  const [, variable] = variables(types).find(([each]) => each === name) ?? [];
  return variable?.aliases?.[0] ?? name;
}
