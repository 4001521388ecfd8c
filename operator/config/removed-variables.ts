import { invalid, problemText } from './parsers/parser.ts';

/** Variables that have no effect any more, with how to go on. */
const REMOVED: Readonly<Record<string, string>> = {
  LEDGER_SPOOL_SIZE: 'delete it; windows wait in memory while the database is away',
  DESTINATIONS_AGGREGATE:
    'delete it; make windows longer by COLLECTION_INTERVAL where a billing system takes fewer events a second than come',
};

/** Returns a text for each removed variable that the environment still sets. */
export function removedTexts(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(REMOVED).flatMap(([name, mend]) => {
    const text = environment[name] ?? '';
    return text === '' ? [] : [problemText(name, invalid('removed', mend), text)];
  });
}
