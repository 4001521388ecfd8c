import { Secret } from '../../model/secret.ts';
import { splitItems } from './lists.ts';
import { invalid, type Parser, valid } from './parser.ts';

const PRINTABLE = /^[!-~]+$/;
const FORM = 'printable ASCII characters without spaces';

/** One credential. */
export function secret(): Parser<Secret> {
  return {
    accepts: FORM,
    parse(text) {
      const problem = secretProblem(text);
      return problem ?? valid(new Secret(text));
    },
  };
}

/** Several credentials, all of them good at the same time, so that they can be rotated (design 11). */
export function secrets(): Parser<readonly Secret[]> {
  return {
    accepts: `comma list of: ${FORM}`,
    parse(text) {
      if (text === '') return secretProblem(text) ?? valid([]);
      const split = splitItems(text);
      // Which item is at fault is kept back: it is a credential.
      if (split.kind === 'problem') return invalid(split.what, split.mend);
      for (const item of split.value) {
        const problem = secretProblem(item);
        if (problem !== undefined) return problem;
      }
      return valid(split.value.map((item) => new Secret(item)));
    },
  };
}

function secretProblem(text: string) {
  if (text === '') return invalid('blank', 'give the credential, or remove the variable');
  if (!PRINTABLE.test(text)) return invalid('not a credential', `use ${FORM}`);
  return undefined;
}
