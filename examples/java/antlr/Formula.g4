// A small language of assignments, functions and conditions.
grammar Formula;

program : statement* EOF ;

statement
    : NAME '=' expression ';'                          # assign
    | 'fun' NAME '(' NAME ')' '=' expression ';'       # define
    | 'print' expression ';'                           # print
    ;

expression
    : <assoc=right> expression '^' expression                    # power
    | expression op=('*' | '/' | '%') expression                 # product
    | expression op=('+' | '-') expression                       # sum
    | expression op=('<' | '==') expression                      # compare
    | 'if' expression 'then' expression 'else' expression        # choice
    | NAME '(' expression ')'                                    # call
    | '-' expression                                             # negate
    | '(' expression ')'                                         # group
    | NUMBER                                                     # number
    | NAME                                                       # name
    ;

NAME : [a-z] [a-z0-9]* ;
NUMBER : [0-9]+ ;
COMMENT : '#' ~[\n]* -> skip ;
SPACE : [ \t\r\n]+ -> skip ;
