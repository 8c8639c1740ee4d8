// Prints the public classes of the TypeScript package as JSON, for scripts/api_table.py: by class and member, the
// comment, and the parameters of its calls, each with the members of its type; null for a member that is not called.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import ts from "../clients/typescript/node_modules/typescript/lib/typescript.js";

const folder = join(dirname(fileURLToPath(import.meta.url)), "../clients/typescript");
const { config } = ts.readConfigFile(join(folder, "tsconfig.json"), ts.sys.readFile);
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder);
const entries = ["src/index.ts", "src/testing.ts"].map((name) => join(folder, name));
const program = ts.createProgram(entries, options);
const checker = program.getTypeChecker();

const classes = {};
const modules = entries.map((name) => checker.getSymbolAtLocation(program.getSourceFile(name)));
for (let symbol of modules.flatMap((module) => checker.getExportsOfModule(module))) {
  if (symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
  const declared = checker.getDeclaredTypeOfSymbol(symbol);
  const isClass = symbol.flags & ts.SymbolFlags.Class;
  // Other classes are not made by programs.
  const made = symbol.name === "Umbra" ? checker.getTypeOfSymbol(symbol).getConstructSignatures() : [];
  classes[symbol.name] = made.length ? { "": [parametersOf(made), ""] } : {};
  if (isClass || symbol.name === "GuardrailsWrapper") addMembers(classes[symbol.name], "", declared);
}
console.log(JSON.stringify(classes));

function addMembers(members, prefix, type) {
  for (const property of type.getProperties()) {
    const [declaration] = property.declarations ?? [];
    const hidden = ts.ModifierFlags.NonPublicAccessibilityModifier | ts.ModifierFlags.Override;
    const isHidden = ts.getCombinedModifierFlags(declaration) & hidden || /^(#|__)/.test(property.name);
    const isInternal = ts.getJSDocTags(declaration).some((tag) => tag.tagName.text === "internal");
    if (isHidden || isInternal || program.isSourceFileDefaultLibrary(declaration.getSourceFile())) continue;
    const own = checker.getTypeOfSymbol(property);
    const signatures = own.getCallSignatures();
    // Parts of a client are objects of methods.
    const isPart = ts.isPropertyDeclaration(declaration) && declaration.initializer?.kind === ts.SyntaxKind.ObjectLiteralExpression;
    if (isPart) addMembers(members, `${property.name}.`, own);
    else {
      const comment = ts.displayPartsToString(property.getDocumentationComment(checker));
      members[prefix + property.name] = [signatures.length > 0 ? parametersOf(signatures) : null, comment];
    }
  }
}

function parametersOf(signatures) {
  return signatures.flatMap((signature) =>
    signature.parameters.map((parameter) => {
      const type = checker.getNonNullableType(checker.getTypeOfSymbol(parameter));
      const isOptions = !type.getCallSignatures().length && !type.isUnion() && !checker.isArrayType(type);
      const isObject = type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection);
      return [parameter.name, isOptions && isObject ? checker.getPropertiesOfType(type).map((one) => one.name) : []];
    }),
  );
}
