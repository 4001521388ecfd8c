import packageJson from '../../package.json' with { type: 'json' };

/** Of the operator, as status, metrics and the User-Agent header tell it. */
export const VERSION: string = packageJson.version;
